/**
 * `selvedge login` stores a cluster and a token under a name; `whoami` says whom the cluster takes
 * the caller for. A token is checked with the cluster before it is stored, and never printed.
 */
import { isIP } from "node:net";
import { clusterUrl, createHttp } from "../../client/http.ts";
import { securityClient } from "../../client/security.ts";
import { isContextName, readContexts, writeContexts } from "../contexts.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { readStdin } from "../io.ts";
import { formatTime } from "../progress.ts";
import type { Registrar, Session } from "../session.ts";
import { readSecretFile } from "../settings.ts";

type LoginOptions = { readonly claim?: string; readonly tokenFile?: string };

export function registerLogin(registrar: Registrar): void {
  const login = registrar.program
    .command("login")
    .description(
      "remember a cluster and a token for it, and use them from now on.\n" +
        "Needs --url; --context names it (default: the URL's host).",
    )
    .option("--claim <code>", "become the first administrator, named by --user; `-` reads stdin")
    .option("--token-file <file>", "file that holds a token; `-` reads standard input");
  registrar.action<LoginOptions>(login, "other", logIn);

  const whoami = registrar.program
    .command("whoami")
    .description("say who the cluster takes you for");
  registrar.action(whoami, "other", async (session) => {
    const me = await securityClient(session.http()).whoami();
    session.output.result(me, () => {
      if (session.output.quiet) return me.user;
      const { url, source } = session.connection();
      const until = me.expiresMs === null ? "" : `, token valid until ${formatTime(me.expiresMs)}`;
      const groups = me.groups?.length ? `, in ${me.groups.join(", ")}` : "";
      return `${me.user} (${me.role}${groups}) at ${url}, cluster ${me.cluster}, from ${source}${until}`;
    });
  });
}

async function logIn(session: Session, _args: readonly string[], options: LoginOptions) {
  const { url, cluster, context } = session.options;
  if (url === undefined) throw usageError("login needs --url", "`selvedge login --url URL …`");
  const base = clusterUrl(url, cluster);
  const name = context ?? defaultName(url, cluster);
  if (!isContextName(name)) {
    throw usageError(`${JSON.stringify(name)} cannot name a context`, "use letters, digits, . _ -");
  }
  // Read before the claim is used up, so that a damaged file is found in time.
  const contexts = readContexts(session.io);
  if (isReadableOnTheWay(base)) {
    session.output.note(`warning: ${base} is not encrypted; whoever is on the way reads the token`);
  }
  const token = await tokenOf(session, base, options);
  const http = createHttp({ url: base, token, signal: session.io.signal });
  const me = await securityClient(http).whoami();
  // Of --claim, --user names the administrator; otherwise it says whose services are meant.
  const user = options.claim === undefined ? session.options.user : undefined;
  const stored = { url, ...(cluster ? { cluster } : {}), ...(user ? { user } : {}), token };
  writeContexts({ current: name, contexts: { ...contexts.contexts, [name]: stored } }, session.io);
  session.output.result({ context: name, url, ...me }, () =>
    session.output.quiet
      ? name
      : `logged in at ${base} as ${me.user} (${me.role}); context ${name} is now the current one`,
  );
}

async function tokenOf(session: Session, base: string, options: LoginOptions): Promise<string> {
  const { io } = session;
  if (options.claim !== undefined && options.tokenFile !== undefined) {
    throw usageError("--claim and --token-file do not go together");
  }
  if (options.claim !== undefined) {
    const code = options.claim === "-" ? (await readStdin(io)).trim() : options.claim;
    const claiming = securityClient(createHttp({ url: base, signal: io.signal }));
    return (await claiming.claim(code, session.options.user)).token;
  }
  if (options.tokenFile === "-") return oneToken(await readStdin(io));
  if (options.tokenFile !== undefined) return readSecretFile(options.tokenFile, io);
  const fromEnvironment = io.env["SELVEDGE_TOKEN"];
  if (fromEnvironment) return oneToken(fromEnvironment);
  throw usageError(
    "login needs a token",
    "give --token-file FILE, or --claim CODE for a cluster that belongs to nobody yet",
  );
}

function oneToken(text: string): string {
  const token = text.trim();
  if (token !== "" && !/\s/.test(token)) return token;
  throw cliError(EXIT_CODE.INVALID_ARGUMENT, "INVALID_ARGUMENT", "what was given is not a token");
}

function defaultName(url: string, cluster: string | undefined): string {
  const host = new URL(url).host.replaceAll(/[^A-Za-z0-9.-]/g, "-").replace(/^-+/, "");
  return cluster === undefined ? host : `${host}-${cluster}`;
}

function isReadableOnTheWay(base: string): boolean {
  const { protocol, hostname } = new URL(base);
  const isLoopback =
    hostname === "localhost" ||
    hostname === "[::1]" ||
    (isIP(hostname) === 4 && hostname.startsWith("127."));
  return protocol === "http:" && !isLoopback;
}
