import { mapRegistry } from "../support/map-registry.ts";
import { describeRegistry } from "../support/registry-contract.ts";

/** A clock that never shows the same time twice. */
let nowMs = 0;
describeRegistry("[RG1] [RG2] [RG3] [RG11] the registry over a Map", () =>
  mapRegistry(() => ++nowMs),
);
