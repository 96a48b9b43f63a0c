import { mapRegistry } from "../support/map-registry.ts";
import { describeRegistry } from "../support/registry-contract.ts";

describeRegistry("the registry over a Map", () => mapRegistry());
