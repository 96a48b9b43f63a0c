/**
 * The local cluster reads wrangler.toml by itself, in a few milliseconds; wrangler's own reading is
 * the judge. It also tells when the file gains a binding that the local cluster would not have.
 */
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { unstable_getMiniflareWorkerOptions as readByWrangler } from "wrangler";
import { readWorkerSettings } from "../../scripts/wrangler-config.ts";

const WRANGLER_TOML = fileURLToPath(new URL("../../wrangler.toml", import.meta.url));
const KNOWN_BINDINGS = ["durableObjects", "r2Buckets"];
/** What wrangler answers besides bindings. */
const NO_BINDINGS = ["rootPath", "compatibilityDate", "compatibilityFlags", "modulesRules"];

it("[HS10] the local cluster runs the Worker with the settings of wrangler.toml", () => {
  const { workerOptions } = readByWrangler(WRANGLER_TOML);
  const settings = readWorkerSettings();
  expect(settings.compatibilityDate).toBe(workerOptions.compatibilityDate);
  expect(settings.compatibilityFlags).toEqual(workerOptions.compatibilityFlags);
  expect(
    Object.fromEntries(
      Object.entries(settings.durableObjects).map(([binding, className]) => [
        binding,
        { className, useSQLite: true },
      ]),
    ),
  ).toEqual(workerOptions.durableObjects);
  expect(Object.keys(settings.r2Buckets)).toEqual(Object.keys(workerOptions.r2Buckets ?? {}));
  expect(settings.r2Buckets).toMatchObject({ STORE: "selvedge" });
});

it("[HS10] wrangler.toml has no binding that the local cluster does not know of", () => {
  const { workerOptions } = readByWrangler(WRANGLER_TOML);
  const isEmpty = (value: unknown): boolean =>
    typeof value === "object" && value !== null && Object.values(value).every(isEmpty);
  const unknown = Object.entries(workerOptions)
    .filter(([name]) => !KNOWN_BINDINGS.includes(name) && !NO_BINDINGS.includes(name))
    .filter(([, value]) => value !== undefined && !isEmpty(value))
    .map(([name]) => name);
  expect(unknown).toEqual([]);
});

it("a setting that is missing is named", () => {
  expect(() => readWorkerSettings('name = "x"\n')).toThrow('no line "compatibility_date = …"');
});
