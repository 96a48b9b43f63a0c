/** An agent as a process of its own, for tests that kill it. Reads its options as JSON on stdin. */
import { text } from "node:stream/consumers";
import { startNodeManager } from "../../src/agent/main.ts";

const agent = await startNodeManager(JSON.parse(await text(process.stdin)));
process.on("SIGTERM", () => void agent.close());
await agent.closed;
