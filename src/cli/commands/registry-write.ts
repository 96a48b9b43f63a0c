/**
 * `selvedge registry mknode|bind|rm|acl`: writing to the registry, with the verbs of Hadoop's
 * RegistryCli (facts/registry-dns.md §5). Who has no right of its own shows an accessor, which is
 * given in the environment: an argument would be seen by everybody on the machine.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { type BindOptions, type RecordInput, registryClient } from "../../client/registry.ts";
import type {
  AclGrant,
  AclSubject,
  RecordCondition,
  RegistryAcl,
} from "../../shared/protocol/registry-operations.ts";
import { collect, wholeNumber } from "../arguments.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { formatTable, oneLine } from "../output.ts";
import type { Registrar, Session } from "../session.ts";

const ACCESSOR_VARIABLE = "SELVEDGE_REGISTRY_ACCESSOR";
const PATH = "registry path, such as /users/joe/org-apache-hbase/demo1";

export function registerRegistryWrite(registrar: Registrar, group: Command): void {
  registerMknode(registrar, group);
  registerBind(registrar, group);
  registerRm(registrar, group);
  registerAcl(registrar, group);
}

function registerMknode(registrar: Registrar, group: Command): void {
  const mknode = group
    .command("mknode")
    .description("make a path without a record; one that exists stays as it is")
    .argument("<path>", PATH)
    .option("-p, --parents", "make the paths above it too");
  registrar.action<{ readonly parents?: true }>(
    mknode,
    "other",
    async (session, [path = ""], { parents }) => {
      const created = await writer(session).mknode(path, parents === true);
      session.output.result({ path, created }, () =>
        oneLine(created ? `${path} was made` : `${path} exists already`),
      );
    },
  );
}

type BindCommandOptions = {
  readonly inet?: true;
  readonly host?: string;
  readonly port?: number;
  readonly webui?: string;
  readonly rest?: string;
  readonly file?: string;
  readonly api?: string;
  readonly parents?: true;
  readonly ifVersion?: RecordCondition;
};

function registerBind(registrar: Registrar, group: Command): void {
  const bind = group
    .command("bind")
    .description(
      "set the record of a path: one endpoint, or a whole record from a file.\n" +
        "A record that is there is replaced.",
    )
    .argument("<path>", PATH)
    .option("--inet", "one endpoint with --host and --port, of protocol hadoop/IPC")
    .option("--host <host>", "with --inet: the host's name or address")
    .option("--port <port>", "with --inet: the port", wholeNumber(1, 65_535))
    .option("--webui <uri>", "one endpoint: a web page for people")
    .option("--rest <uri>", "one endpoint: a REST API")
    .option("--api <api>", "what the endpoint offers, such as org.apache.hbase")
    .option("--file <file>", "the whole record as JSON")
    .option("-p, --parents", "make the paths above it too")
    .option(
      "--if-version <version>",
      "only in place of this version (of `stat`), or of no record: absent",
      readCondition,
    );
  registrar.action<BindCommandOptions>(bind, "other", async (session, [path = ""], options) => {
    const record = recordOf(session, options);
    const { ifVersion } = options;
    const how: BindOptions = {
      overwrite: true,
      createParents: options.parents === true,
      ...(ifVersion === undefined ? {} : { ifVersion }),
    };
    const version = await writer(session).bind(path, record, how);
    session.output.result({ path, version }, () =>
      oneLine(`${path} has the record, version ${version}`),
    );
  });
}

function readCondition(text: string): RecordCondition {
  return text === "absent" ? text : wholeNumber(0)(text);
}

function recordOf(session: Session, options: BindCommandOptions): RecordInput {
  const { inet, webui, rest, file } = options;
  const given = [inet, webui, rest, file].filter((each) => each !== undefined).length;
  if (given !== 1) {
    throw usageError(
      given === 0 ? "bind does not say what to bind" : "bind says several things to bind",
      "give one of --inet, --webui, --rest and --file",
    );
  }
  return file === undefined ? endpointRecord(options) : readRecord(session, file);
}

function endpointRecord({ inet, host, port, webui, rest, api }: BindCommandOptions): RecordInput {
  if (api === undefined) {
    throw usageError("an endpoint needs --api", "such as --api org.apache.hbase");
  }
  if (inet === undefined) {
    const uri = webui ?? rest ?? "";
    if (!URL.canParse(uri)) {
      const message = `${JSON.stringify(uri)} is not a URI`;
      throw usageError(message, "one looks like http://host:8080/path");
    }
    const protocolType = webui === undefined ? "REST" : "webui";
    return record({ api, addressType: "uri", protocolType, addresses: [{ uri }] });
  }
  if (host === undefined || port === undefined) {
    throw usageError("--inet needs --host and --port", "such as --host worker1 --port 8020");
  }
  const addresses = [{ host, port: String(port) }];
  return record({ api, addressType: "host/port", protocolType: "hadoop/IPC", addresses });
}

function record(endpoint: object): RecordInput {
  return { type: "JSONServiceRecord", external: [endpoint], internal: [] };
}

function readRecord(session: Session, file: string): RecordInput {
  let text: string;
  try {
    text = readFileSync(resolve(session.io.cwd, file), "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw cliError(EXIT_CODE.NOT_FOUND, "NOT_FOUND", `cannot read ${file}: ${reason}`);
  }
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return value as RecordInput;
    }
  } catch {
    // Said below, as for JSON that is no object.
  }
  throw cliError(
    EXIT_CODE.INVALID_ARGUMENT,
    "INVALID_ARGUMENT",
    `${file} does not hold a JSON object`,
    'a record is one, such as {"type": "JSONServiceRecord", "external": [], "internal": []}',
  );
}

type RmOptions = { readonly recursive?: true; readonly force?: true };

function registerRm(registrar: Registrar, group: Command): void {
  const rm = group
    .command("rm")
    .description("delete a path")
    .argument("<path>", PATH)
    .option("-r, --recursive", "with everything below it")
    .option("-f, --force", "a path that is missing is no failure");
  registrar.action<RmOptions>(rm, "other", async (session, [path = ""], { recursive, force }) => {
    const deleted = await writer(session).delete(path, recursive === true, force === true);
    session.output.result({ path, deleted }, () =>
      oneLine(deleted ? `${path} is deleted` : `${path} was not there`),
    );
  });
}

type AclOptions = { readonly add?: readonly string[]; readonly remove?: readonly string[] };

function registerAcl(registrar: Registrar, group: Command): void {
  const acl = group
    .command("acl")
    .description("show who may write to a path, and change it")
    .argument("<path>", PATH)
    .option(
      "--add <entry>",
      "user:NAME:rwcda, container:ID:rwcda, or digest:ID:rwcda; may be repeated",
      collect,
    )
    .option("--remove <subject>", "user:NAME, container:ID, or digest:ID; may be repeated", collect)
    .addHelpText(
      "after",
      `\nAn accessor is given as id:password in the environment, as ${ACCESSOR_VARIABLE}; --add\n` +
        "digest:ID then names it. Permissions are ZooKeeper's: w the record, c and d make and\n" +
        "delete children, a this list; everybody reads.",
    );
  registrar.action<AclOptions>(acl, "other", async (session, [path = ""], { add, remove }) => {
    const registry = writer(session);
    const isChange = add !== undefined || remove !== undefined;
    const entries = isChange
      ? await registry.setAcl(path, (add ?? []).map(readGrant), (remove ?? []).map(readSubject))
      : await registry.getAcl(path);
    session.output.result(entries, () => formatAcl(entries));
  });
}

function readGrant(text: string): AclGrant {
  const at = text.lastIndexOf(":");
  return { ...readSubject(text.slice(0, Math.max(at, 0))), permissions: text.slice(at + 1) };
}

function readSubject(text: string): AclSubject {
  const [scheme = "", id = "", ...rest] = text.split(":");
  const isScheme = scheme === "user" || scheme === "digest" || scheme === "container";
  if (isScheme && id !== "" && rest.length === 0) return { scheme, id };
  throw usageError(
    `${JSON.stringify(text)} is not one of user:NAME, container:ID and digest:ID`,
    "with --add also :PERMISSIONS, such as user:joe:rwcd",
  );
}

function formatAcl({ entries }: RegistryAcl): string {
  const rows = entries.map(({ scheme, id, permissions, implied }) =>
    [scheme, id, permissions, implied ? "by its place" : "granted"].map(oneLine),
  );
  return formatTable(["SCHEME", "ID", "PERMISSIONS", "HOW"], rows);
}

function writer(session: Session) {
  const client = registryClient(session.http());
  const accessor = session.io.env[ACCESSOR_VARIABLE];
  if (accessor === undefined || accessor === "") return client;
  const at = accessor.indexOf(":");
  client.addWriteAccessor(accessor.slice(0, Math.max(at, 0)), accessor.slice(at + 1));
  return client;
}
