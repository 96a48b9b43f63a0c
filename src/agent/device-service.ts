/**
 * Devices over a container's life: assigned when it is about to start, kept on the disk, told to it in
 * its environment, free again when its processes are gone.
 *
 *   {directory}/journal
 */
import { mkdir } from "node:fs/promises";
import * as z from "zod";
import type { ContainerId } from "../shared/ids.ts";
import type { Resource } from "../shared/resource.ts";
import type { ApplicationContainer, ApplicationService } from "./applications.ts";
import { type Device, DeviceAllocator } from "./devices.ts";
import { DurableRecords } from "./durable-records.ts";
import type { Log } from "./log.ts";

const storedSchema = z.object({
  containerId: z.string(),
  assignment: z.record(z.string(), z.array(z.string()).readonly()),
});

export type DeviceServiceOptions = {
  readonly devices: readonly Device[];
  readonly directory: string;
  /** What the container was granted; undefined when this node does not know it (any more). */
  readonly resourceOf: (containerId: ContainerId) => Resource | undefined;
  readonly log: Log;
};

export class DeviceService implements ApplicationService {
  readonly name = "devices";
  readonly #allocator: DeviceAllocator;
  readonly #resourceOf: DeviceServiceOptions["resourceOf"];
  readonly #files: DurableRecords<z.infer<typeof storedSchema>>;

  private constructor({ devices, directory, resourceOf, log }: DeviceServiceOptions) {
    this.#allocator = new DeviceAllocator(devices);
    this.#resourceOf = resourceOf;
    this.#files = new DurableRecords(directory, (json) => storedSchema.parse(json), log);
  }

  /** Takes up what an earlier agent has assigned. */
  static async open(options: DeviceServiceOptions): Promise<DeviceService> {
    await mkdir(options.directory, { recursive: true, mode: 0o700 });
    const service = new DeviceService(options);
    for (const { containerId, assignment } of await service.#files.readAll()) {
      service.#allocator.restore(containerId, assignment);
    }
    return service;
  }

  /** What the node's capability has in `extra`. */
  get counts(): Readonly<Record<string, number>> {
    return this.#allocator.counts;
  }

  pathsOf(containerId: ContainerId): string[] {
    return this.#allocator.pathsOf(containerId);
  }

  /** Rejects, with words for people, when too few devices are free. */
  async initializeContainer({ containerId }: ApplicationContainer) {
    const resource = this.#resourceOf(containerId);
    if (!resource) throw new Error(`container ${containerId} was granted nothing on this node`);
    await this.#releaseUnknown();
    const assignment = this.#allocator.assign(containerId, resource);
    if (!assignment.ok) throw new Error(assignment.error.message);
    if (Object.keys(assignment.value).length > 0) {
      await this.#files.write(containerId, { containerId, assignment: { ...assignment.value } });
    }
    return this.#allocator.environmentOf(containerId);
  }

  async stopContainer({ containerId }: Pick<ApplicationContainer, "containerId">): Promise<void> {
    await this.#files.remove(containerId);
    this.#allocator.release(containerId);
  }

  /** Containers that ended with nobody there to say so, such as with a lost state store. */
  async #releaseUnknown(): Promise<void> {
    for (const containerId of this.#allocator.holders) {
      if (!this.#resourceOf(containerId)) await this.stopContainer({ containerId });
    }
  }
}
