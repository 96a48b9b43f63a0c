import { mapRegistry } from "../support/map-registry.ts";
import { describeRegistry } from "../support/registry-contract.ts";

/** A clock that never shows the same time twice. */
let nowMs = 0;
describeRegistry("the registry over a Map", () => mapRegistry(() => ++nowMs));
