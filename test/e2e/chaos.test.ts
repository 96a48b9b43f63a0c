/**
 * What goes wrong on a machine, with real agents and real processes; and that afterwards nothing of
 * the node is left, and every exit was reported once.
 */
import { afterEach, describe, expect, it } from "vitest";
import { ChaosNode, type ChaosNodeOptions } from "../chaos/chaos-node.ts";

const nodes: ChaosNode[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.close();
});

async function start(options: ChaosNodeOptions = {}, root?: string): Promise<ChaosNode> {
  const node = await ChaosNode.create(options, root);
  nodes.push(node);
  await node.startAgent();
  return node;
}

describe("a thousand short containers", () => {
  it("[NM133] are reported once each, with their exit codes, and leave nothing", async () => {
    const interval = { "yarn.nodemanager.container-monitor.interval-ms": 3_000 };
    const node = await start({ configuration: interval });
    const codes = Array.from({ length: 1_000 }, (_, index) => index % 7);
    for (const [index, code] of codes.entries()) {
      await node.run(index + 1, `exit ${code}`, [code], { memoryMb: 1 });
    }
    await node.untilOver(120_000);
    expect(await node.finish()).toEqual([]);
  });
});
