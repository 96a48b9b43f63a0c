/**
 * `selvedge dns`: a resolver for the programs of one machine. The cluster's names come from its
 * registry over HTTPS, all others from the resolvers that the machine had before. Runs until it is
 * told to end.
 */
import { readFileSync } from "node:fs";
import { InvalidArgumentError, Option } from "commander";
import { DEFAULT_DOMAIN, DNS_TYPE, RCODE } from "../../shared/dns.ts";
import { isEncodableName } from "../../shared/dns-bytes.ts";
import {
  formatServerAddress,
  isLoopback,
  isSameServer,
  nameserversOf,
  parseServerAddress,
  type ServerAddress,
} from "../dns/addresses.ts";
import { type AskCluster, clusterNames } from "../dns/cluster-names.ts";
import { innermostMessage, type QueryLog, Resolver } from "../dns/resolver.ts";
import { type DnsServer, startDnsServer } from "../dns/server.ts";
import { upstreamServers } from "../dns/upstream.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { wishToEnd } from "../io.ts";
import { oneLine } from "../output.ts";
import type { Registrar, Session } from "../session.ts";

type DnsOptions = {
  readonly listen: ServerAddress;
  readonly upstream?: readonly ServerAddress[];
  readonly domain: string;
  readonly resolvConf: string;
  readonly json?: boolean;
};

const DEFAULT_LISTEN = { host: "127.0.0.1", port: 5353 };

export function registerDns(registrar: Registrar): void {
  const command = registrar.program
    .command("dns")
    .description("answer DNS for this machine's programs: the cluster's names and all others")
    .addOption(
      new Option("--listen <address>", "loopback address and port")
        .argParser(serverAddress)
        .default(DEFAULT_LISTEN, formatServerAddress(DEFAULT_LISTEN)),
    )
    .option("--upstream <address>", "resolver for all other names; repeatable", addServer)
    .option("--domain <name>", "zone of the cluster's names", zoneName, DEFAULT_DOMAIN)
    .option("--resolv-conf <file>", "where resolvers are listed", "/etc/resolv.conf")
    .option("--json", "log every query as one line of JSON on stdout");
  registrar.action<DnsOptions>(command, "other", async (session, _args, options) => {
    if (!isLoopback(options.listen.host)) {
      throw usageError(
        `${options.listen.host} can be reached from other machines`,
        "listen on a loopback address: whoever else could ask would use it against others",
      );
    }
    const askCluster = clusterNames(session.connection());
    const upstreams = upstreamsOf(options, session);
    const resolver = new Resolver({
      domain: options.domain,
      askCluster,
      askUpstream: upstreamServers(upstreams),
      now: Date.now,
      log: options.json ? (line) => logLine(session, line) : reportOutages(session),
      signal: session.io.signal,
    });
    const server = await listen(options.listen, resolver);
    try {
      tell(session, options, server, upstreams);
      await Promise.all([checkZone(session, options, askCluster), wishToEnd(session.io.signal)]);
    } finally {
      await server.close();
    }
  });
}

async function listen(at: ServerAddress, resolver: Resolver): Promise<DnsServer> {
  try {
    return await startDnsServer(at, (query, bytesMax) => resolver.resolve(query, bytesMax));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why =
      code === "EADDRINUSE"
        ? ["is taken by another program", "choose another port, such as --listen 127.0.0.1:5354"]
        : code === "EACCES"
          ? ["needs a right", "ports below 1024 need root or CAP_NET_BIND_SERVICE"]
          : [`cannot be had: ${code}`, "choose another with --listen"];
    const [what = "", hint = ""] = why;
    const message = `${formatServerAddress(at)} ${what}`;
    throw cliError(EXIT_CODE.INVALID_ARGUMENT, "FAILED_PRECONDITION", message, hint);
  }
}

/** The resolvers for foreign names, never this one itself. */
function upstreamsOf(options: DnsOptions, session: Session): readonly ServerAddress[] {
  const listed = options.upstream ?? nameserversOf(readText(options.resolvConf));
  const upstreams = listed.filter((server) => !isSameServer(server, options.listen));
  if (upstreams.length < listed.length) {
    session.output.note(`${formatServerAddress(options.listen)} is this resolver itself: left out`);
  }
  if (upstreams.length === 0) {
    session.output.note("there is no other resolver: names outside of the cluster will fail");
  }
  return upstreams;
}

function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/** Says early what would otherwise look like names that do not exist. */
async function checkZone(
  session: Session,
  { domain }: DnsOptions,
  askCluster: AskCluster,
): Promise<void> {
  try {
    const { rcode } = await askCluster({ name: domain, type: DNS_TYPE.SOA });
    if (rcode !== RCODE.REFUSED) return;
    session.output.note(
      `the cluster does not serve the zone ${domain}; name its SELVEDGE_DOMAIN with --domain`,
    );
  } catch (error) {
    session.output.note(`the cluster does not answer yet: ${oneLine(innermostMessage(error))}`);
  }
}

function tell(
  session: Session,
  { domain }: DnsOptions,
  { address }: DnsServer,
  upstreams: readonly ServerAddress[],
): void {
  const at = formatServerAddress(address);
  const { host, port } = address;
  session.output.note(
    [
      `Answering DNS on ${at}: ${domain} from ${session.connection().url},`,
      `all else from ${upstreams.map(formatServerAddress).join(", ") || "nobody"}.`,
      `  try it:            dig -p ${port} @${host} ${domain} SOA`,
      `  systemd-resolved:  /etc/systemd/resolved.conf.d/selvedge.conf with [Resolve],`,
      `                     DNS=${at} and Domains=~${domain}; systemctl restart systemd-resolved`,
      `  without it:        listen on 127.0.0.1:53 and write \`nameserver 127.0.0.1\` to`,
      `                     /etc/resolv.conf, with the present ones given by --upstream`,
    ].join("\n"),
  );
}

function logLine(session: Session, line: QueryLog): void {
  const time = new Date().toISOString();
  session.io.stdout.write(`${JSON.stringify({ time, event: "query", ...line })}\n`);
}

/** For people: that the cluster has gone and that it is back, not every query. */
function reportOutages(session: Session): (line: QueryLog) => void {
  let isOut = false;
  return ({ source, error }) => {
    if (source === "upstream" || source === "cache") return;
    if (isOut === (error !== undefined)) return;
    isOut = error !== undefined;
    session.output.note(
      isOut
        ? `a name could not be asked for; known ones go on for an hour: ${oneLine(error ?? "")}`
        : "the cluster answers again",
    );
  };
}

function serverAddress(text: string): ServerAddress {
  const address = parseServerAddress(text, DEFAULT_LISTEN.port);
  if (address !== null) return address;
  throw new InvalidArgumentError("Wanted is ADDRESS or ADDRESS:PORT, such as 127.0.0.1:5353.");
}

function addServer(text: string, earlier: readonly ServerAddress[] = []): readonly ServerAddress[] {
  const address = parseServerAddress(text);
  if (address !== null) return [...earlier, address];
  throw new InvalidArgumentError("Wanted is ADDRESS or ADDRESS:PORT, such as 192.0.2.53.");
}

function zoneName(text: string): string {
  const zone = text.toLowerCase().replace(/\.$/, "");
  if (zone !== "" && isEncodableName(zone)) return zone;
  throw new InvalidArgumentError("Wanted is a name of DNS, such as selvedge.internal.");
}
