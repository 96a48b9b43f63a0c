/**
 * The process that holds the Worker of a local cluster: Miniflare's API, and below it workerd.
 * Started by scripts/local-cluster.ts with an IPC channel, in a session of its own, because
 *  - a Ctrl-C in the terminal must reach `npm start` alone, so that the agents can say goodbye to
 *    a Worker that still answers (Miniflare itself exits on SIGINT), and
 *  - a Miniflare that is killed leaves its workerd behind: here the whole group can be killed.
 * Where the parent disappears without a word, this process ends the whole cluster and then itself.
 */
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare } from "miniflare";
import { bundleWorker } from "./bundle-worker.ts";
import { endClusterProcesses } from "./processes.ts";
import { readWorkerSettings } from "./wrangler-config.ts";

export type WorkerProcessOptions = {
  readonly host: string;
  readonly port: number;
  readonly home: string;
  readonly bindings: Readonly<Record<string, string>>;
};

/** Parent → this process. */
export type WorkerCommand =
  | { readonly type: "start"; readonly options: WorkerProcessOptions }
  | { readonly type: "stop" };

/** This process → parent. */
export type WorkerAnswer =
  | { readonly type: "ready" }
  | { readonly type: "failed"; readonly message: string };

/** How long agents get to stop their containers when the parent has disappeared. */
const ABANDONED_GRACE_MS = 10_000;

let miniflare: Miniflare | undefined;
let home: string | undefined;

process.on("message", (command: WorkerCommand) => {
  if (command.type === "stop") void stop();
  else void start(command.options);
});
process.on("disconnect", () => void abandoned());

async function start(options: WorkerProcessOptions): Promise<void> {
  home = options.home;
  try {
    const script = await bundleWorker();
    const settings = readWorkerSettings();
    miniflare = new Miniflare(
      convertV4MiniflareOptions({
        name: settings.name,
        host: options.host,
        port: options.port,
        modules: true,
        script,
        compatibilityDate: settings.compatibilityDate,
        compatibilityFlags: [...settings.compatibilityFlags],
        durableObjects: Object.fromEntries(
          Object.entries(settings.durableObjects).map(([binding, className]) => [
            binding,
            { className, useSQLite: true },
          ]),
        ),
        r2Buckets: { ...settings.r2Buckets },
        bindings: { ...options.bindings },
        resourcePersistencePath: `${options.home}/state`,
        cf: false,
        telemetry: { enabled: false },
        unsafeLocalExplorer: false,
        unsafeObservability: false,
        log: new Log(LogLevel.WARN),
        handleStructuredLogs: ({ message }) => process.stdout.write(`${message}\n`),
      }),
    );
    await miniflare.ready;
    answer({ type: "ready" });
  } catch (error) {
    answer({ type: "failed", message: error instanceof Error ? error.message : String(error) });
    await stop();
  }
}

async function stop(): Promise<void> {
  await miniflare?.dispose();
  process.exit(0);
}

async function abandoned(): Promise<void> {
  // Miniflare first: it would start a workerd again that was ended behind its back.
  await miniflare?.dispose();
  if (home !== undefined) await endClusterProcesses(home, ABANDONED_GRACE_MS);
  process.exit(1);
}

function answer(message: WorkerAnswer): void {
  if (process.connected) process.send?.(message);
}
