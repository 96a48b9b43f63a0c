/** Containers that the ResourceManager has lately said to be there, so that it is asked seldom. */

/** How long a container that has ended may go on reading. */
const BELIEVED_MS = 60_000;
const CONTAINERS_MAX = 10_000;

export class LiveContainers {
  readonly #untilMs = new Map<string, number>();

  /** `find` answers null for a container that has ended. */
  async has(
    cluster: string,
    containerId: string,
    find: () => Promise<object | null>,
  ): Promise<boolean> {
    const key = `${cluster}/${containerId}`;
    if ((this.#untilMs.get(key) ?? 0) > Date.now()) return true;
    this.#untilMs.delete(key);
    if ((await find()) === null) return false;
    if (this.#untilMs.size >= CONTAINERS_MAX) this.#untilMs.clear();
    this.#untilMs.set(key, Date.now() + BELIEVED_MS);
    return true;
  }
}
