/** One auxiliary service in its thread: calls go in as messages, and nothing thrown comes out. */
import { Worker } from "node:worker_threads";
import * as z from "zod";
import type { AuxiliaryService, AuxiliaryServiceContext } from "./auxiliary-service.ts";
import { messageOf } from "./log.ts";

const CALL_TIMEOUT_MS = 10_000;
/** Goes into environments and statuses: an address or a port, not data. */
const META_DATA_LENGTH_MAX = 1_024;

/**
 * What runs in the thread. A text and no file, since the agent is carried away as one file
 * (scripts/build.ts) and a thread needs an entry of its own.
 */
const PROGRAM = `
  import { parentPort, workerData } from "node:worker_threads";
  const { default: create } = await import(workerData.module);
  const service = await create(workerData.context);
  parentPort.on("message", async ({ id, method, argument }) => {
    try {
      await service[method]?.(argument);
      parentPort.postMessage({ id });
    } catch (error) {
      parentPort.postMessage({ id, error: String(error?.message ?? error) });
    }
  });
  const metaData = (await service.metaData?.()) ?? "";
  parentPort.postMessage({ ready: { metaData, version: service.version ?? "" } });
`;

const readySchema = z.object({
  ready: z.object({
    metaData: z.base64().max(META_DATA_LENGTH_MAX).or(z.literal("")),
    version: z.string().max(64),
  }),
});
const answerSchema = z.object({ id: z.int(), error: z.string().optional() });

type Call = { readonly resolve: () => void; readonly reject: (error: Error) => void };
type Method = Exclude<keyof AuxiliaryService, "version" | "metaData">;

export class AuxiliaryServiceThread {
  /** Base64. */
  metaData = "";
  version = "";
  readonly #name: string;
  readonly #worker: Worker;
  readonly #calls = new Map<number, Call>();
  #lastId = 0;
  #failure = "it was stopped";
  #isEnded = false;
  /** Resolves with the reason when the thread is gone. */
  readonly ended: Promise<string>;

  private constructor(name: string, worker: Worker) {
    this.#name = name;
    this.#worker = worker;
    worker.on("error", (error) => {
      this.#failure = messageOf(error);
    });
    worker.on("message", (message: unknown) => this.#receive(message));
    this.ended = new Promise((resolve) => {
      worker.on("exit", () => {
        this.#isEnded = true;
        for (const { reject } of this.#calls.values()) reject(this.#error(this.#failure));
        this.#calls.clear();
        resolve(this.#failure);
      });
    });
  }

  /** Resolves when the service answers calls. `moduleUrl` is a file's URL. */
  static async start(
    moduleUrl: string,
    context: AuxiliaryServiceContext,
  ): Promise<AuxiliaryServiceThread> {
    const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(PROGRAM)}`), {
      name: context.name,
      workerData: { module: moduleUrl, context },
      // Nothing of the agent's environment, which may hold secrets.
      env: { PATH: process.env["PATH"] ?? "", LANG: "C" },
      execArgv: [],
    });
    const thread = new AuxiliaryServiceThread(context.name, worker);
    try {
      await thread.#ready();
      return thread;
    } catch (error) {
      await worker.terminate();
      throw error;
    }
  }

  /** Rejects when the service does, takes longer than 10 s, or ends. */
  call<Name extends Method>(
    method: Name,
    ...[argument]: Parameters<NonNullable<AuxiliaryService[Name]>>
  ): Promise<void> {
    const id = ++this.#lastId;
    return this.#waitFor(id, method, () => this.#worker.postMessage({ id, method, argument }));
  }

  /** Lets the service stop, and ends the thread in any case. */
  async stop(): Promise<void> {
    await this.call("stop").catch(() => undefined);
    await this.#worker.terminate();
  }

  /** The thread says that it is ready as if it answered a call 0. */
  #ready(): Promise<void> {
    return this.#waitFor(0, "start", () => undefined);
  }

  async #waitFor(id: number, what: string, begin: () => void): Promise<void> {
    if (this.#isEnded) throw this.#error(this.#failure);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(
      () => reject(this.#error(`${what} took longer than ${CALL_TIMEOUT_MS} ms`)),
      CALL_TIMEOUT_MS,
    );
    this.#calls.set(id, { resolve, reject });
    begin();
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#calls.delete(id);
    }
  }

  #receive(message: unknown): void {
    const ready = readySchema.safeParse(message);
    const answer = answerSchema.safeParse(message);
    if (ready.success) {
      this.metaData = ready.data.ready.metaData;
      this.version = ready.data.ready.version;
      this.#calls.get(0)?.resolve();
    } else if (!answer.success) {
      const sentence = `its metaData is not base64 of at most ${META_DATA_LENGTH_MAX} characters`;
      this.#calls.get(0)?.reject(this.#error(sentence));
    } else if (answer.data.error === undefined) {
      this.#calls.get(answer.data.id)?.resolve();
    } else {
      this.#calls.get(answer.data.id)?.reject(this.#error(answer.data.error));
    }
  }

  #error(reason: string): Error {
    return new Error(`auxiliary service ${this.#name}: ${reason}`);
  }
}
