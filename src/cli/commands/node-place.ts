/** Where a node lives on this machine, and what it is called, unless it is told otherwise. */
import { existsSync, readFileSync } from "node:fs";
import { homedir, hostname } from "node:os";
import { join, resolve } from "node:path";
import type { NodeConfiguration } from "../../agent/main.ts";
import { isNodeId } from "../../shared/ids.ts";
import { CliError, cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import type { Io } from "../io.ts";

/** YARN's default port of a NodeManager; here it only tells nodes of one host apart. */
export const NODE_PORT = 8041;

export function defaultHome(io: Io): string {
  const data = io.env["XDG_DATA_HOME"] || join(io.env["HOME"] || homedir(), ".local", "share");
  return join(data, "selvedge", "node");
}

export function nodeIdOf(given: string | undefined): string {
  const nodeId = given ?? `${hostname().toLowerCase()}:${NODE_PORT}`;
  if (isNodeId(nodeId)) return nodeId;
  throw usageError(
    `${JSON.stringify(nodeId)} is not a node id`,
    "a node id is host:port, such as --node-id worker1.example.com:8041",
  );
}

/** Reads a node's configuration as the agent would; every mistake in it at once. */
export async function readNodeConfiguration(file: string, io: Io): Promise<NodeConfiguration> {
  const path = resolve(io.cwd, file);
  if (!existsSync(path)) {
    throw cliError(EXIT_CODE.NOT_FOUND, "NOT_FOUND", `there is no file ${path}`);
  }
  const { parseNodeConfigurationText } = await import("../../agent/main.ts");
  const configuration = parseNodeConfigurationText(readFileSync(path, "utf8"));
  if (configuration.ok) return configuration.value;
  const { error } = configuration;
  throw new CliError(EXIT_CODE.INVALID_ARGUMENT, {
    ...error,
    message: `${file}: ${error.message}`,
  });
}
