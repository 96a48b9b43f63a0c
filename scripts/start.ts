/**
 * `npm start`: brings up a whole cluster on this machine, deploys the example service, waits until
 * it is STABLE and says what a person does next; then stays until Ctrl-C and ends all it started.
 * The steps themselves are in start/bring-up.ts. Progress goes to stderr, the result to stdout.
 *
 * Exit codes: 0 the cluster was up and was stopped as asked; 1 it could not be brought up, or its
 * Worker ended by itself; 130 stopped before it was up.
 */
import { ProblemError } from "../src/client/problem-error.ts";
import { endClusterProcesses } from "./processes.ts";
import { bringUp, type Running } from "./start/bring-up.ts";
import { occupyHome } from "./start/home.ts";
import { readOptions, StartError, type StartOptions, USAGE } from "./start/options.ts";

/**
 * One Ctrl-C arrives twice, from the terminal and forwarded by npm; only a later one is a person's
 * second.
 */
const SAME_SIGNAL_MS = 500;
const CONTAINER_GRACE_MS = 2_000;

/** First signal: stop in order. Second: kill at once. */
type Interruption = { readonly stop: AbortSignal; readonly kill: AbortSignal };

async function main(): Promise<number> {
  const options = readOptions(process.env, process.argv.slice(2));
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  const interruption = listenForSignals();
  const leaveHome = await occupyHome(options.home);
  const running: Running = { worker: undefined, agents: [] };
  try {
    const summary = await bringUp(options, running, progress(options), interruption.stop);
    console.log(summary);
    return await stay(running, interruption.stop);
  } catch (error) {
    if (interruption.stop.aborted) return 130;
    throw error;
  } finally {
    await stopAll(running, options, interruption);
    leaveHome();
  }
}

/** Until somebody asks to stop, or there is nothing left to stay for. */
async function stay(running: Running, stop: AbortSignal): Promise<number> {
  let staying = true;
  for (const agent of running.agents) {
    void agent.exited.then((how) => {
      if (!staying) return;
      console.error(`NodeManager ${agent.nodeId} has ended (${how}). Its log: ${agent.logFile}`);
    });
  }
  const workerEnded = await Promise.race([
    running.worker?.exited.then(() => true),
    aborted(stop).then(() => false),
  ]);
  staying = false;
  if (!workerEnded) return 0;
  console.error(`The Worker has ended by itself. Its log: ${running.worker?.logFile}`);
  return 1;
}

async function stopAll(
  running: Running,
  options: StartOptions,
  interruption: Interruption,
): Promise<void> {
  if (running.agents.length > 0 && options.progress) {
    console.error("Stopping the nodes and their containers (Ctrl-C again kills them) …");
  }
  await Promise.race([
    Promise.all(running.agents.map((agent) => agent.stop())),
    aborted(interruption.kill),
  ]);
  await Promise.all(running.agents.map((agent) => agent.kill()));
  await running.worker?.dispose();
  await endClusterProcesses(options.home, interruption.kill.aborted ? 0 : CONTAINER_GRACE_MS);
}

function listenForSignals(): Interruption {
  const stop = new AbortController();
  const kill = new AbortController();
  let firstMs = 0;
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(name, () => {
      if (!stop.signal.aborted) {
        firstMs = Date.now();
        stop.abort();
      } else if (Date.now() - firstMs > SAME_SIGNAL_MS) {
        kill.abort();
      }
    });
  }
  return { stop: stop.signal, kill: kill.signal };
}

function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve()));
}

function progress(options: StartOptions): (line: string) => void {
  const startedMs = Date.now();
  let last = "";
  return (line) => {
    if (!options.progress || line === last) return;
    last = line;
    console.error(`${((Date.now() - startedMs) / 1_000).toFixed(1).padStart(6)} s  ${line}`);
  };
}

function explain(error: unknown): string {
  if (error instanceof ProblemError) {
    const { message, hint } = error.failure;
    return hint === undefined ? message : `${message}\n${hint}`;
  }
  if (error instanceof StartError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

main().then(
  (code) => process.exit(code),
  (error) => {
    console.error(explain(error));
    process.exit(1);
  },
);
