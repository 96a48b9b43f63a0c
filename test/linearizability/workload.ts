/**
 * Several clients that use a registry over HTTP at the same time, while somebody kills it, and the
 * history of what they have seen. Each client is one connection with one request at a time. The
 * seed decides what is asked for and when the server dies; the machine decides the rest.
 */
import { Agent, request as httpRequest } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { Random } from "../simulation/random.ts";
import { Chooser, NAMES } from "./choices.ts";
import type { History, Operation } from "./history.ts";
import type { Change, Condition, RegistryInput, RegistryOutput } from "./registry-model.ts";

export type RegistryHistory = History<RegistryInput, RegistryOutput>;

export type Registry = {
  readonly url: string;
  readonly token: string;
  /** Ends the server at once, and answers when it has come back. */
  kill(): Promise<void>;
};

export type WorkloadOptions = {
  readonly seed: number;
  readonly clients: number;
  readonly kills: number;
  /** How long the clients ask, the server's absences included. */
  readonly durationMs: number;
};

export type Outcome = {
  readonly history: RegistryHistory;
  /** Killed and come back. */
  readonly kills: number;
  /** How many answers said nothing about the registry's state, such as 429 and 500, by status. */
  readonly refusals: ReadonlyMap<number, number>;
};

/** Directories in use at a time. */
const DIRECTORIES = 2;
/** Fewer writes to one path than one writer may make at once, and parts that are judged quickly. */
const OPERATIONS_PER_DIRECTORY = 150;
/** Below the home of who claims the cluster. */
const ROOT = "/users/admin/linearizability";
const OPERATIONS = "/ws/v1/registry-operations";
const ABSENT_PAUSE_MS = 10;
/** Of HTTP's status numbers, those from here on say that the server has failed. */
const SERVER_FAILURES = 500;
const ANSWER_MAX_MS = 20_000;

type Answer = { readonly status: number; readonly body: string };

/** The part of a node document that the model knows. */
type NodeDocument = {
  readonly stat: { readonly version: number };
  readonly record?: { readonly description: string };
};
type ListDocument = {
  readonly children: readonly { readonly path: string; readonly version: number }[];
};

export async function runWorkload(registry: Registry, options: WorkloadOptions): Promise<Outcome> {
  const workload = new Workload(registry, options);
  return workload.run();
}

class Workload {
  readonly #registry: Registry;
  readonly #options: WorkloadOptions;
  readonly #history: Operation<RegistryInput, RegistryOutput>[] = [];
  readonly #refusals = new Map<number, number>();
  #asked = 0;
  #kills = 0;
  #isOver = false;

  constructor(registry: Registry, options: WorkloadOptions) {
    this.#registry = registry;
    this.#options = options;
  }

  async run(): Promise<Outcome> {
    const { seed, clients } = this.#options;
    const dice = new Random(seed);
    const seeds = Array.from({ length: clients }, () => dice.between(0, 0x7fffffff));
    const asking = Promise.all(seeds.map((each, client) => this.#client(each, client)));
    try {
      await this.#killing(dice);
    } finally {
      this.#isOver = true;
      await asking;
    }
    await this.#readEverything(clients);
    return { history: this.#history, kills: this.#kills, refusals: this.#refusals };
  }

  /** The last pause is for what happens after the last death. */
  async #killing(dice: Random): Promise<void> {
    const { kills, durationMs } = this.#options;
    const slotMs = durationMs / (kills + 1);
    for (let kill = 0; kill <= kills; kill++) {
      const startedMs = performance.now();
      // Not always when all connections have just been made.
      const beforeMs = kill === kills ? 0 : slotMs * (0.3 + 0.6 * dice.next());
      await delay(beforeMs);
      if (kill < kills) {
        await this.#registry.kill();
        this.#kills += 1;
      }
      await delay(Math.max(0, slotMs - (performance.now() - startedMs)));
    }
  }

  async #client(seed: number, client: number): Promise<void> {
    const chooser = new Chooser(new Random(seed), client);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    while (!this.#isOver) {
      const generation = Math.floor(this.#asked++ / (OPERATIONS_PER_DIRECTORY * DIRECTORIES));
      const number = generation * DIRECTORIES + (this.#asked % DIRECTORIES);
      const input = chooser.choose(`${ROOT}/d${number}`);
      const output = await this.#perform(agent, client, input);
      if (output !== null) chooser.heard(input, output);
    }
    agent.destroy();
  }

  /** Whatever was acknowledged, however long ago, is there in the end. */
  async #readEverything(client: number): Promise<void> {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const directories = new Set(this.#history.map(({ input }) => input.directory));
    for (const directory of directories) {
      await this.#perform(agent, client, { directory, op: "list" });
      for (const name of NAMES) await this.#perform(agent, client, { directory, op: "read", name });
    }
    agent.destroy();
  }

  /** Null where nobody knows, or nothing happened. */
  async #perform(
    agent: Agent,
    client: number,
    input: RegistryInput,
  ): Promise<RegistryOutput | null> {
    const invokedMs = performance.now();
    let answer: Answer;
    try {
      answer = await this.#send(agent, input);
    } catch (error) {
      // Nobody was there to hear it.
      if ((error as NodeJS.ErrnoException).code === "ECONNREFUSED") await delay(ABSENT_PAUSE_MS);
      else this.#history.push({ client, input, invokedMs, returned: null });
      return null;
    }
    const atMs = performance.now();
    const output = outputOf(input, answer);
    if (output === null) {
      const { status } = answer;
      this.#refusals.set(status, (this.#refusals.get(status) ?? 0) + 1);
      // Who says that it failed may have done it before.
      if (status >= SERVER_FAILURES)
        this.#history.push({ client, input, invokedMs, returned: null });
      return null;
    }
    this.#history.push({ client, input, invokedMs, returned: { output, atMs } });
    return output;
  }

  #send(agent: Agent, input: RegistryInput): Promise<Answer> {
    const { directory } = input;
    switch (input.op) {
      case "read":
        return this.#request(agent, "GET", `/registry/v1${directory}/${input.name}`);
      case "list":
        return this.#request(agent, "GET", `/registry/v1${directory}?list`);
      case "write":
        return this.#write(agent, directory, input.changes);
    }
  }

  #write(agent: Agent, directory: string, changes: readonly Change[]): Promise<Answer> {
    const [first] = changes;
    if (changes.length > 1 || first === undefined) {
      const operations = changes.map((change) => operationOf(directory, change));
      return this.#request(agent, "POST", `${OPERATIONS}/transact`, { operations });
    }
    const { op, ...body } = operationOf(directory, { ...first, condition: null });
    const headers = conditionHeader(first.condition);
    return this.#request(agent, "POST", `${OPERATIONS}/${op}`, body, headers);
  }

  #request(
    agent: Agent,
    method: string,
    path: string,
    body?: object,
    condition: Readonly<Record<string, string>> = {},
  ): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const headers =
      body === undefined
        ? { "Cache-Control": "no-cache" }
        : {
            Authorization: `Bearer ${this.#registry.token}`,
            "Content-Type": "application/json",
            ...condition,
          };
    const url = new URL(path, this.#registry.url);
    const request = httpRequest(url, { method, headers, agent, timeout: ANSWER_MAX_MS });
    request.on("timeout", () => request.destroy(new Error("no answer in time")));
    request.on("error", reject);
    request.on("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("close", () => {
        if (!response.complete) return reject(new Error("half an answer"));
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() });
      });
    });
    request.end(body === undefined ? undefined : JSON.stringify(body));
    return promise;
  }
}

function operationOf(directory: string, { name, value, condition }: Change) {
  const path = `${directory}/${name}`;
  if (value === null) return { op: "delete", path, missingOk: true };
  const record = { type: "JSONServiceRecord", description: value };
  const ifVersion = condition === null ? {} : { ifVersion: condition };
  return { op: "bind", path, record, overwrite: true, createParents: true, ...ifVersion };
}

/** A bind by itself says its condition in HTTP's words. */
function conditionHeader(condition: Condition): Readonly<Record<string, string>> {
  if (condition === null) return {};
  return condition === "absent" ? { "If-None-Match": "*" } : { "If-Match": `"${condition}"` };
}

/** Null for an answer that says nothing about the registry's state. */
function outputOf(input: RegistryInput, { status, body }: Answer): RegistryOutput | null {
  if (status === 412) return { kind: "mismatch" };
  if (status === 404 && input.op === "read") return { kind: "record", record: null };
  // The directory is made with its first record.
  if (status === 404 && input.op === "list") return { kind: "names", versions: {} };
  if (status !== 200) return null;
  const document: unknown = JSON.parse(body);
  switch (input.op) {
    case "read": {
      const { stat, record } = document as NodeDocument;
      const value = record?.description ?? "no record";
      return { kind: "record", record: { value, version: stat.version } };
    }
    case "list": {
      const { children } = document as ListDocument;
      const versions = children.map(({ path, version }) => [path, version] as const);
      return { kind: "names", versions: Object.fromEntries(versions) };
    }
    case "write":
      return { kind: "done", results: resultsOf(document) };
  }
}

type WriteResult = { readonly version: number } | { readonly deleted: boolean };

function resultsOf(document: unknown): readonly (number | boolean)[] {
  const { results } = document as { readonly results?: readonly WriteResult[] };
  const all = results ?? [document as WriteResult];
  return all.map((result) => ("version" in result ? result.version : result.deleted));
}
