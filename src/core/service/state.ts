/**
 * The rows of one service: what its ServiceMaster must not forget. Everything that follows from
 * them (states, diagnostics, asks, registry records) is computed, never stored.
 */
import type { RegistryCredential } from "../../shared/container.ts";
import type { ContainerId, NodeId } from "../../shared/ids.ts";
import type { ServiceEntry, Submitter } from "../../shared/protocol/application-client.ts";
import type { FinalStatus, PendingRequest } from "../../shared/protocol/application-master.ts";
import type { PublicationNumber } from "../../shared/protocol/registry-operations.ts";
import type { ReInitialization } from "../../shared/protocol/resource-tracker.ts";
import type { ServiceEvent, UpgradeMode } from "../../shared/protocol/service.ts";
import type { Resource } from "../../shared/resource.ts";
import type { ServiceDefinition } from "../../shared/service.ts";
import { type Change, Index, Table } from "../table.ts";
import { guard } from "../transitions.ts";
import { INSTANCE_TRANSITIONS, PHASE_TRANSITIONS, UPGRADE_TRANSITIONS } from "./transitions.ts";

/**
 * STOPPED     saved; runs nothing (also after it failed or succeeded: `outcome`)
 * SUBMITTING  wants an application of the ResourceManager
 * RUNNING     has an application; its ApplicationMaster is this object
 * FINISHING   tells the ResourceManager that the application ends; then STOPPED
 * DESTROYING  as FINISHING, and then nothing is left
 */
export type Phase = "STOPPED" | "SUBMITTING" | "RUNNING" | "FINISHING" | "DESTROYING";

export type ServiceRow = {
  readonly key: "service";
  readonly user: string;
  /** Who asked for the present or last run. */
  readonly submitter: Submitter;
  readonly definition: ServiceDefinition;
  readonly phase: Phase;
  /** How the last run ended, while it is not running. */
  readonly outcome: { readonly finalStatus: FinalStatus; readonly diagnostics: string } | null;
  /**
   * Names the present run to the ResourceManager, so that submitting twice is submitting once;
   * null when the ResourceManager has nothing of this service.
   */
  readonly submissionId: string | null;
  readonly applicationId: string | null;
  readonly attemptId: string | null;
  readonly registered: boolean;
  /** Of the last allocate reply received. */
  readonly responseId: number;
  /**
   * Of the next allocate request; never used for two requests that differ, not even by another
   * service of the same name, hence counted from the epoch ms of the creation. It rises whenever the
   * object is loaded, too, and so also orders its publications.
   */
  readonly sequence: number;
  /** Epoch ms of the present run's submission. */
  readonly launchMs: number | null;
  readonly lifetimeDeadlineMs: number | null;
  /** The directory line as last decided, and the generation up to which it was heard. */
  readonly entry: ServiceEntry | null;
  readonly entryGeneration: number;
  readonly entryHeard: number;
};

/** An upgrade under way: from the ServiceRow's definition, which stays until the end, to this one. */
export type UpgradeRow = {
  readonly key: "upgrade";
  readonly mode: UpgradeMode | "CANCEL_UPGRADING";
  /** Its components stand in the order of the definition before. */
  readonly definition: ServiceDefinition;
  /** Components whose containers change; those of the others stay as they are. */
  readonly changed: readonly string[];
};

export type ComponentRow = {
  readonly name: string;
  /** Wanted number of containers; starts as the definition's, changed by flex. */
  readonly desired: number;
  /** Its dependencies were satisfied once; from then on it runs whatever becomes of them. */
  readonly started: boolean;
  /** Outstanding number as the ResourceManager knows it; null: it was never told. */
  readonly asked: number | null;
  /** Epoch ms of the counted failures inside the reset window. */
  readonly failures: readonly number[];
};

/**
 * WAITING    asked for, no container yet        BACKOFF   waits until `notBeforeMs`
 * ASSIGNED   has a container, not handed over   LAUNCHING handed to the node
 * STARTED    process runs, unready              READY
 * STOPPING   released; until its end is known, its name is taken (then WAITING, if still wanted)
 * SUCCEEDED, FAILED   ended for good by its restart policy
 */
export type InstanceState =
  | "WAITING"
  | "BACKOFF"
  | "ASSIGNED"
  | "LAUNCHING"
  | "STARTED"
  | "READY"
  | "STOPPING"
  | "SUCCEEDED"
  | "FAILED";

export type InstanceRow = {
  /** `{component}-{index}` */
  readonly name: string;
  readonly component: string;
  readonly index: number;
  readonly state: InstanceState;
  readonly notBeforeMs: number;
  /** Quick ends in a row; decides the next back-off. */
  readonly quickEnds: number;
  readonly container: AssignedContainer | null;
  readonly diagnostics: string;
  /** Of the service's upgrade; absent: it is not asked for here. */
  readonly upgrade?: InstanceUpgrade;
};

/**
 * UPGRADING       wants the new definition, from now on and whatever container it has
 * FAILED_UPGRADE  the new one did not run, so it wants the old one; may be asked for again
 */
export type InstanceUpgrade = {
  readonly state: "UPGRADING" | "FAILED_UPGRADE";
  /** Why it failed. */
  readonly diagnostics: string;
  /**
   * Where the upgrade goes on by itself: epoch ms at which it will have been ready with the new one
   * for long enough, and null from then on. Absent: it is not ready.
   */
  readonly provenAtMs?: number | null;
};

export type AssignedContainer = {
  readonly containerId: ContainerId;
  readonly nodeId: NodeId;
  readonly nodeIncarnation: number;
  /** ContainerToken, until the launch was handed over. */
  readonly token: string;
  /** Until then, too. */
  readonly registry?: RegistryCredential;
  readonly host: string | null;
  readonly ip: string | null;
  readonly ports: Readonly<Record<string, number>>;
  readonly startedMs: number | null;
  readonly readiness: string;
  /** It has answered its readiness check at least once; from then on it is in the registry. */
  readonly wasReady: boolean;
  /** `version` of the launch context that it runs with; absent: 1. */
  readonly launchVersion?: number;
  /** Latest `revision` of which its node has said how it went. */
  readonly settledRevision?: number;
  /** Latest `revision` that was decided; absent: as settled. */
  readonly revision?: number;
  /** Highest version that an upgrade has taken back; it is not used again. Absent: none. */
  readonly spentVersion?: number;
  /** Its first process was started with the definition of the upgrade under way. */
  readonly isUpgraded?: true;
  readonly reInitialization?: ReInitializationRow;
  /** Absent in rows of before there were sizes: it is not resized. */
  readonly size?: ContainerSize;
  /** Another size under way. */
  readonly resize?: ResizeRow;
  /** Its tracker has said that it is over there; its end comes from the ResourceManager. */
  readonly isOver?: true;
};

/**
 * A launch context that is to take the place of the present one in place, and what shall become of
 * it: a RESTART is COMMITTED from the start; an UPGRADE is PENDING, as long as its node shall be
 * able to take the one before again.
 */
export type ReInitializationRow = {
  readonly why: "RESTART" | "UPGRADE";
  /** Of the launch context. */
  readonly version: number;
  readonly fate: ReInitialization;
  /** Of the container's entry at the tracker: above those of all changes before it. */
  readonly revision: number;
  /** The tracker has it. */
  readonly isHandedOver: boolean;
};

export type ContainerSize = {
  /** Of the container, as the ResourceManager counts its updates. */
  readonly version: number;
  /** What the ResourceManager has booked, which it may have rounded up. */
  readonly resource: Resource;
  /** What was asked for. */
  readonly wanted: Resource;
};

export type ResizeRow = {
  readonly to: Resource;
  /** The ResourceManager has done it; before, it is to be asked. */
  readonly isGranted: boolean;
  /** ContainerToken of the new size, until it was handed over. */
  readonly token: string;
  /** Of the container's entry at the tracker; and whether the tracker has it. */
  readonly revision: number;
  readonly isHandedOver: boolean;
};

/**
 * A container which the ResourceManager shall take back. Once it has heard that, it is not told
 * again; the row stays until it says that the container has ended.
 */
export type ReleaseRow = { readonly containerId: ContainerId; readonly heard: boolean };

/** A path in the registry, as it was last published; the body is empty while that is unknown. */
export type PublishedRow = { readonly path: string; readonly body: string };

/** Events, many to a row. */
export type EventPage = { readonly page: number; readonly events: readonly ServiceEvent[] };

/** The last status report heard from a tracker shard. */
export type ShardRow = { readonly shard: string; readonly generation: number };

export class Service {
  /** Why requests wait, as the ResourceManager said last. Not stored: asked for when needed. */
  pending: readonly PendingRequest[] = [];
  /**
   * The ResourceManager hinted that allocate has news. Not stored: it hints until it has answered,
   * and an answer that got lost is given again when it is asked for.
   */
  newsWaiting = false;
  /** A request may have changed the outstanding numbers without an answer: say all of them again. */
  asksInDoubt = false;

  /** Publications since the object was loaded; each life of the object has a `sequence` of its own. */
  #publications = 0;

  readonly service = new Table<ServiceRow>("service", (row) => row.key);
  readonly upgrades = new Table<UpgradeRow>("upgrade", (row) => row.key);
  readonly components = new Table<ComponentRow>("components", (row) => row.name);
  readonly instances = new Table<InstanceRow>("instances", (row) => row.name);
  readonly releases = new Table<ReleaseRow>("releases", (row) => row.containerId);
  readonly published = new Table<PublishedRow>("published", (row) => row.path);
  readonly events = new Table<EventPage>("events", (row) => String(row.page));
  readonly shards = new Table<ShardRow>("shards", (row) => row.shard);
  readonly tables = [
    this.service,
    this.upgrades,
    this.components,
    this.instances,
    this.releases,
    this.published,
    this.events,
    this.shards,
  ] as const;
  readonly instanceOfContainer = new Index(
    this.instances,
    (row) => row.name,
    (row) => row.container?.containerId,
  );
  readonly instancesOfComponent = new Index(
    this.instances,
    (row) => row.name,
    (row) => row.component,
  );
  readonly instancesInState = new Index(
    this.instances,
    (row) => row.name,
    (row) => row.state,
  );

  /** Those with another launch in place that is not settled for good. */
  readonly reInitializing = new Index(
    this.instances,
    (row) => row.name,
    (row) => (row.container?.reInitialization ? "any" : undefined),
  );

  readonly resizing = new Index(
    this.instances,
    (row) => row.name,
    (row) => (row.container?.resize ? "any" : undefined),
  );

  constructor() {
    guard(this.service, PHASE_TRANSITIONS, ({ phase }) => phase);
    guard(this.instances, INSTANCE_TRANSITIONS, ({ state }) => state);
    guard(this.upgrades, UPGRADE_TRANSITIONS, ({ mode }) => mode);
  }

  /** After the rows were loaded: an answer may have been on its way, so there may be news. */
  restore(): void {
    const { row } = this;
    this.newsWaiting = row?.registered ?? false;
    this.asksInDoubt = this.newsWaiting;
    if (row) this.update({ sequence: row.sequence + 1 });
  }

  /** Of a publication that is just about to be sent: above those of all that were sent before. */
  publication(): PublicationNumber {
    this.#publications += 1;
    return { life: this.row?.sequence ?? 0, count: this.#publications };
  }

  drain(): Change[] {
    return this.tables.flatMap((table) => table.drain());
  }

  get row(): ServiceRow | undefined {
    return this.service.get("service");
  }

  get upgrade(): UpgradeRow | undefined {
    return this.upgrades.get("upgrade");
  }

  update(changes: Partial<Omit<ServiceRow, "key">>): void {
    const row = this.row;
    if (row) this.service.put({ ...row, ...changes });
  }

  instancesOf(component: string): InstanceRow[] {
    return this.#rows(this.instancesOfComponent.of(component)).sort((a, b) => a.index - b.index);
  }

  inState(state: InstanceState): InstanceRow[] {
    return this.#rows(this.instancesInState.of(state));
  }

  instanceWith(containerId: ContainerId): InstanceRow | undefined {
    const [name] = this.instanceOfContainer.of(containerId);
    return name === undefined ? undefined : this.instances.get(name);
  }

  withResize(): InstanceRow[] {
    return this.#rows(this.resizing.of("any"));
  }

  withReInitialization(): InstanceRow[] {
    return this.#rows(this.reInitializing.of("any"));
  }

  #rows(names: readonly string[]): InstanceRow[] {
    const rows: InstanceRow[] = [];
    for (const name of names) {
      const row = this.instances.get(name);
      if (row) rows.push(row);
    }
    return rows;
  }
}
