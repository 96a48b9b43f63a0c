/** docs/openapi.json is what the Worker serves at /openapi.json; generated, committed, never edited. */
import { expect, it } from "vitest";
import { openApiDocument } from "../../src/worker/app.ts";
import { readProjectFile } from "../support/source-files.ts";

it("[HS9] docs/openapi.json is up to date (`npm run openapi` writes it)", () => {
  const written: unknown = JSON.parse(readProjectFile("docs/openapi.json"));
  expect(JSON.parse(JSON.stringify(openApiDocument()))).toEqual(written);
});
