/** `/net` of a deployment with no other cluster, for tests of one registry alone. */
import { RegistryNet } from "../../src/worker/registry-net.ts";

export const NO_NET = new RegistryNet(
  () => {
    throw new Error("there is no other cluster");
  },
  { isCluster: () => false, net: { clusters: [], remotes: new Map() }, registryReaders: "anybody" },
);
