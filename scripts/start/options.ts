/**
 * What `npm start` is asked to do: environment variables and flags, checked before anything is
 * started. Everything that is wrong with them is one sentence that also says what would be right.
 */
import { availableParallelism, totalmem } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { isLoopback } from "../local-cluster.ts";

export const USAGE = `npm start [-- --no-example] [--nodes N] [--no-progress]

  --nodes N       start N NodeManagers, 1 to 64 (default 2)
  --no-example    do not deploy examples/hello-world
  --no-progress   print nothing but the result

  PORT            where the cluster answers (default 8088)
  HOST            this machine's loopback address (default 127.0.0.1)
  SELVEDGE_HOME   where the cluster keeps its state (default .selvedge)`;

const NODES_MAX = 64;

export type StartOptions = {
  readonly host: string;
  readonly port: number;
  /** Absolute path. */
  readonly home: string;
  readonly nodes: number;
  readonly example: boolean;
  readonly progress: boolean;
  readonly help: boolean;
  /** What each of the nodes offers. */
  readonly capability: { readonly memoryMb: number; readonly vcores: number };
};

/** A failure whose message is all that a person needs; no stack is shown. */
export class StartError extends Error {
  override readonly name = "StartError";
}

export function readOptions(
  environment: Readonly<Record<string, string | undefined>>,
  args: readonly string[],
): StartOptions {
  const flags = readFlags(args);
  const host = environment["HOST"] || "127.0.0.1";
  if (!isLoopback(host)) {
    throw new StartError(
      `HOST=${host} can be reached from other machines, and \`npm start\` runs in development ` +
        "mode, which believes callers who they are: leave HOST out, or deploy the Worker.",
    );
  }
  const port = wholeNumber(environment["PORT"] || "8088", "PORT", 1, 65_535);
  const nodes = wholeNumber(flags.nodes, "--nodes", 1, NODES_MAX);
  return {
    host,
    port,
    home: resolve(environment["SELVEDGE_HOME"] || ".selvedge"),
    nodes,
    example: !flags["no-example"],
    progress: !flags["no-progress"],
    help: flags.help,
    capability: capabilityOf(nodes),
  };
}

function readFlags(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        nodes: { type: "string", default: "2" },
        "no-example": { type: "boolean", default: false },
        "no-progress": { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    }).values;
  } catch (error) {
    throw new StartError(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  }
}

function wholeNumber(text: string, name: string, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  throw new StartError(`${name} is ${text}; it must be a whole number from ${min} to ${max}.`);
}

/**
 * The nodes of one machine together offer half of its memory. A virtual core is a share of time
 * rather than a processor, so each node offers four even where the machine has fewer: otherwise a
 * small machine would refuse the first service that is flexed.
 */
function capabilityOf(nodes: number): { memoryMb: number; vcores: number } {
  const memoryMb = Math.floor(totalmem() / 1_048_576 / 2 / nodes);
  return { memoryMb, vcores: Math.max(4, Math.floor(availableParallelism() / nodes)) };
}
