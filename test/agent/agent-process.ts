/** An agent as a process of its own, for tests that kill it. Reads its options as JSON on stdin. */
import { text } from "node:stream/consumers";
import { runNodeManager } from "../../src/agent/main.ts";

await runNodeManager(JSON.parse(await text(process.stdin)));
