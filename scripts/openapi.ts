/** Writes docs/openapi.json from the API's own endpoints: `npm run openapi`. */
import { writeFile } from "node:fs/promises";
import { openApiDocument } from "../src/worker/app.ts";

const path = new URL("../docs/openapi.json", import.meta.url);
await writeFile(path, `${JSON.stringify(openApiDocument(), null, 2)}\n`);
