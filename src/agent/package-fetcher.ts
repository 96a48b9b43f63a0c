/**
 * Packages for the node: `package:sha256:…` resources come from the cluster itself, with the node's
 * own credential, which goes to the cluster's URL and nowhere else.
 */
import type { PackageFetcher } from "./localization/resource-source.ts";

/** `credential` is asked for each time: it is renewed while the agent runs. */
export function packageFetcher(url: string, credential: () => string): PackageFetcher {
  const base = url.replace(/\/+$/, "");
  return (sha256, signal) =>
    fetch(`${base}/ws/v1/node/packages/${sha256}`, {
      headers: { authorization: `Bearer ${credential()}` },
      redirect: "error",
      signal,
    });
}
