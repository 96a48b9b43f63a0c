/** How far a container's resources are, for people to see. */
import type { LocalizedResource, LocalizedResourceState } from "./localized-resource.ts";

export type ResourceProgress = {
  /** The path under which the container finds it. */
  readonly link: string;
  /** Without what may be a secret. */
  readonly url: string;
  readonly state: LocalizedResourceState;
  /** Of the download; 0 for what was there already. */
  readonly bytesDone: number;
  /** Absent while the source has not said it. */
  readonly bytesTotal?: number;
  /** Why it is FAILED. */
  readonly diagnostics?: string;
};

export type LocalizationProgress = { readonly resources: readonly ResourceProgress[] };

export function progressOf(links: ReadonlyMap<string, LocalizedResource>): LocalizationProgress {
  const resources = [...links].map(([link, resource]) => {
    const { identity, state, bytesDone, bytesTotal, diagnostics } = resource;
    return {
      link,
      url: identity.displayUrl,
      state,
      bytesDone,
      ...(bytesTotal === undefined ? {} : { bytesTotal }),
      ...(diagnostics === undefined ? {} : { diagnostics }),
    };
  });
  return { resources };
}
