/**
 * What people do with the cluster: each owns one service name and gives one command at a time,
 * again and again until it is answered. What was answered with yes is a promise.
 */
import type { Failure, Reply } from "../../src/shared/errors.ts";
import { UPGRADE_MODES } from "../../src/shared/protocol/service.ts";
import type { Resource } from "../../src/shared/resource.ts";
import type { ComponentDefinition, ServiceDefinition } from "../../src/shared/service.ts";
import type { Party } from "./network.ts";
import type { Random } from "./random.ts";
import type { SimulatedServiceMaster } from "./service-master.ts";
import type { World } from "./world.ts";

const POLICIES = ["ALWAYS", "ALWAYS", "ALWAYS", "ON_FAILURE", "NEVER"] as const;

export class User implements Party {
  readonly name: string;
  readonly life = 0;
  readonly unreachableUntilMs = 0;
  readonly world: World;
  readonly #master: SimulatedServiceMaster;
  readonly #size: number;
  #submissions = 0;
  #versions = 1;
  /** A command was given and not yet answered. */
  isWaiting = false;
  /** Since the last command was given. */
  #wasJustKilled = false;
  /** What has been promised. */
  #promised: {
    exists: boolean;
    runs: boolean;
    wanted: Map<string, number>;
    mayExpire: boolean;
    mayBeKilled: boolean;
  } = { exists: false, runs: false, wanted: new Map(), mayExpire: false, mayBeKilled: false };

  constructor(world: World, master: SimulatedServiceMaster, size: number) {
    this.name = `user of ${master.name}`;
    this.world = world;
    this.#master = master;
    this.#size = size;
  }

  crash(): void {}

  /** One more command, unless the last one is still being given. */
  act(): void {
    if (this.isWaiting) return;
    const { random } = this.world;
    const { exists, runs } = this.#promised;
    if (!exists || this.#master.core.row === undefined) {
      this.#create();
      return;
    }
    const dice = random.between(1, 100);
    if (dice <= 50 && runs) {
      this.#flex();
      return;
    }
    if (dice <= 65 && runs) {
      this.#upgrade();
      return;
    }
    if (dice <= 72) {
      runs ? this.#stop() : this.#start();
      return;
    }
    if (dice <= 80) {
      this.#destroy();
      return;
    }
    if (dice <= 84) {
      this.#setLifetime();
      return;
    }
    if (dice <= 95 && runs) {
      this.#restart();
      return;
    }
    if (!runs) this.#start();
  }

  /** An operator has ended its application. */
  killed(): void {
    this.#promised.mayBeKilled = true;
    this.#wasJustKilled = true;
  }

  get mayExpire(): boolean {
    return this.#promised.mayExpire;
  }

  /** Which promise the master's books do not keep, or undefined. */
  brokenPromise(): string | undefined {
    if (this.isWaiting) return undefined;
    const { exists, runs, wanted, mayExpire, mayBeKilled } = this.#promised;
    const row = this.#master.core.row;
    const isThere = row !== undefined && row.phase !== "DESTROYING";
    if (!exists) return isThere ? "it was destroyed, and is there" : undefined;
    if (!isThere) return mayExpire ? undefined : "it was created, and is not there";
    for (const [component, count] of wanted) {
      const { desired } = this.#master.core.components.get(component) ?? {};
      if (desired !== count) return `${component} shall have ${count} and not ${desired}`;
    }
    const isRunning = row.phase === "SUBMITTING" || row.phase === "RUNNING";
    if (!runs && isRunning) return `it was stopped, and is ${row.phase}`;
    if (!runs || isRunning || mayBeKilled) return undefined;
    const status = row.outcome?.finalStatus;
    if (status === "FAILED" || status === "SUCCEEDED") return undefined;
    return `it was started, and is ${row.phase}`;
  }

  #create(): void {
    const definition = drawDefinition(this.world.random, this.#master.name, this.#size);
    const { lifetime, startNow, components } = definition;
    this.#command(
      "create",
      () => this.#master.createService("ann", definition, this.#submissionId()),
      () => {
        this.#promised = {
          exists: true,
          runs: startNow,
          wanted: new Map(
            components.map(({ name, numberOfContainers }) => [name, numberOfContainers]),
          ),
          mayExpire: lifetime > 0,
          mayBeKilled: this.#wasJustKilled,
        };
      },
    );
  }

  #start(): void {
    this.#command(
      "start",
      () => this.#master.startService(this.#submissionId()),
      () => {
        this.#promised.runs = true;
      },
    );
  }

  #stop(): void {
    this.#command(
      "stop",
      () => this.#master.stopService(),
      () => {
        this.#promised.runs = false;
      },
    );
  }

  #destroy(): void {
    this.#command(
      "destroy",
      () => this.#master.destroyService(),
      () => {
        this.#promised.exists = false;
      },
    );
  }

  #setLifetime(): void {
    const seconds = this.world.random.chance(0.5) ? -1 : this.world.random.between(5, 600);
    this.#command(
      "lifetime",
      () => this.#master.setLifetime(seconds),
      () => {
        if (seconds > 0) this.#promised.mayExpire = true;
      },
      () => {
        this.#promised.mayExpire = true;
      },
    );
  }

  /** It promises nothing: the container may end before. What is begun comes to an end (rest.ts). */
  #restart(): void {
    const component = this.world.random.pick([...this.#promised.wanted.keys()]);
    this.#command(
      "restart",
      () => this.#master.restartContainer(`${component}-0`),
      () => undefined,
    );
  }

  /** It promises nothing: what is begun must be sound at any time (rest.ts). */
  #upgrade(): void {
    const { random } = this.world;
    const master = this.#master;
    const { definition } = master.core.row ?? {};
    const component = random.pick([...this.#promised.wanted.keys()]);
    const nothing = () => undefined;
    const step = random.pick(["initiate", "initiate", "components", "instance", "cancel", "final"]);
    if (step === "initiate" && definition) {
      const next = this.#nextVersion(definition);
      const mode = random.pick(UPGRADE_MODES);
      this.#command("initiate upgrade", () => master.initiateUpgrade(mode, next), nothing);
    } else if (step === "components") {
      this.#command("upgrade components", () => master.upgradeComponents(), nothing);
    } else if (step === "instance") {
      this.#command("upgrade instance", () => master.upgradeInstance(`${component}-0`), nothing);
    } else if (step === "cancel") {
      this.#command("cancel upgrade", () => master.cancelUpgrade(), nothing);
    } else {
      this.#start();
    }
  }

  /** Some of what runs for ever runs something else, or in another size. */
  #nextVersion(definition: ServiceDefinition): ServiceDefinition {
    const { random } = this.world;
    this.#versions += 1;
    const version = String(this.#versions);
    const components = definition.components.map((component) => {
      if (component.restartPolicy !== "ALWAYS" || random.chance(0.2)) return component;
      const resource = random.chance(0.5) ? component.resource : drawResource(random);
      return { ...component, launchCommand: `true ${version}`, resource };
    });
    return { ...definition, version, components };
  }

  #flex(): void {
    const { random } = this.world;
    const component = random.pick([...this.#promised.wanted.keys()]);
    const count = random.between(0, this.#size);
    this.#command(
      "flex",
      () => this.#master.flexService([{ component, count }]),
      () => {
        this.#promised.wanted.set(component, count);
      },
    );
  }

  /** Given again until it is answered: all commands are absolute, so twice is once. */
  #command(
    what: string,
    request: () => Reply<unknown>,
    promise: () => void,
    begun: () => void = () => undefined,
  ): void {
    this.isWaiting = true;
    this.#wasJustKilled = false;
    begun();
    let wasAnswered = true;
    const attempt = () =>
      this.#master.network.call({
        from: this,
        to: this.#master,
        what: `user -> ${this.#master.name} ${what}`,
        isOnce: true,
        request,
        reply: (reply) => {
          this.isWaiting = false;
          if (reply.ok) promise();
          else this.#refused(what, reply.error, wasAnswered, promise);
        },
        failed: () => {
          wasAnswered = false;
          this.world.after(
            this.world.random.between(10, 1_000),
            `${this.name} tries again`,
            attempt,
          );
        },
      });
    attempt();
  }

  /** What a refusal says of an earlier attempt whose answer was never heard. */
  #refused(what: string, error: Failure, wasAnswered: boolean, promise: () => void): void {
    const isBeingDestroyed = error.message.includes("being destroyed");
    if (what === "create") {
      if (!wasAnswered && error.code === "ALREADY_EXISTS" && !isBeingDestroyed) promise();
    } else if (error.code === "NOT_FOUND" && what !== "restart" && !what.includes("upgrade")) {
      if (what === "destroy" || this.#promised.mayExpire) this.#promised.exists = false;
    } else if (what === "flex" && !wasAnswered) {
      // It may have been carried out before the service ended by itself.
      for (const { name, desired } of this.#master.core.components.values()) {
        this.#promised.wanted.set(name, desired);
      }
    }
  }

  #submissionId(): string {
    this.#submissions += 1;
    return `${this.#master.name}/${this.#submissions}`;
  }
}

/** A valid definition; components depend only on those before them. */
export function drawDefinition(random: Random, name: string, size: number): ServiceDefinition {
  const components: ComponentDefinition[] = [];
  const count = random.between(1, 3);
  for (let index = 0; index < count; index += 1) {
    const before = components.at(-1);
    const dependsOn = before && random.chance(0.5) ? before : undefined;
    components.push({
      name: ["web", "worker", "db"][index] ?? "other",
      dependencies: dependsOn ? [dependsOn.name] : [],
      rank: dependsOn ? dependsOn.rank + 1 : 0,
      launchCommand: "true",
      resource: drawResource(random),
      numberOfContainers: random.between(0, size),
      restartPolicy: random.pick(POLICIES),
      readinessCheck: {
        type: random.chance(0.5) ? "PORT" : "DEFAULT",
        port: "80",
        minSuccess: 200,
        maxSuccess: 299,
        timeoutMs: 1_000,
        intervalMs: 1_000,
      },
      configuration: {
        properties: {
          "yarn.service.container-failure-per-component.threshold": random.pick(["3", "1000"]),
        },
        env: {},
      },
      quicklinks: [],
    });
  }
  return {
    name,
    version: "1",
    description: "",
    queue: "default",
    lifetime: random.chance(0.15) ? random.between(10, 600) : -1,
    startNow: random.chance(0.9),
    components,
    configuration: { properties: {}, env: {} },
    quicklinks: {},
  };
}

function drawResource(random: Random): Resource {
  return { memoryMb: 256 * random.between(1, 8), vcores: random.between(1, 3) };
}
