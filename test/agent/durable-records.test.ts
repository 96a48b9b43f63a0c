/** What an agent keeps in mind: whatever happens to it, to its machine, or to its disk. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import fc from "fast-check";
import { afterEach, beforeEach, expect, it } from "vitest";
import * as z from "zod";
import { DurableRecords, NewerFormatError } from "../../src/agent/durable-records.ts";
import type { LogLine } from "../../src/agent/log.ts";
import { storedRecords } from "../support/journal.ts";

const recordSchema = z.object({ id: z.string(), text: z.string() });
type StoredText = z.infer<typeof recordSchema>;

let directory: string;
let lines: LogLine[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "selvedge-records-"));
  lines = [];
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** As an agent's next life finds them. */
const open = (parse = (json: unknown) => recordSchema.parse(json)) =>
  new DurableRecords<StoredText>(directory, parse, (line) => lines.push(line));
const journal = (name = "journal") => join(directory, name);
const textsOf = (records: readonly StoredText[]) =>
  Object.fromEntries(records.map(({ id, text }) => [id, text]));

async function texts(): Promise<Record<string, string>> {
  return textsOf(await open().readAll());
}

it("[NM222] what was waited for is there, wherever a last change was cut off", async () => {
  const change = fc.record({
    id: fc.constantFrom("a", "b", "c"),
    text: fc.string(),
    isGone: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(change, { minLength: 1, maxLength: 8 }),
      fc.nat(),
      async (changes, cut) => {
        rmSync(directory, { recursive: true });
        mkdirSync(directory);
        const records = open();
        const expected = new Map<string, string>();
        for (const { id, text, isGone } of changes.slice(0, -1)) {
          await (isGone ? records.remove(id) : records.write(id, { id, text }));
          if (isGone) expected.delete(id);
          else expected.set(id, text);
        }
        const whole = existsSync(journal()) ? readFileSync(journal()) : Buffer.alloc(0);
        const last = JSON.stringify([changes.at(-1)?.id, { id: "a", text: "never acknowledged" }]);
        writeFileSync(
          journal(),
          Buffer.concat([whole, Buffer.from(last.slice(0, cut % last.length))]),
        );
        expect(await texts()).toEqual(Object.fromEntries(expected));
      },
    ),
    { numRuns: 50 },
  );
});

it("[NM222] an agent that is killed while it writes has lost nothing that it waited for", async () => {
  const program = `
    import { DurableRecords } from ${JSON.stringify(join(import.meta.dirname, "../../src/agent/durable-records.ts"))};
    const records = new DurableRecords(${JSON.stringify(directory)}, (json) => json, () => {});
    const write = async (id) => {
      for (let number = 1; ; number++) {
        await records.write(id, { id, text: String(number).padEnd(3_000) });
        process.stdout.write(id + " " + number + "\\n");
      }
    };
    for (const id of ["a", "b", "c", "d"]) void write(id);
  `;
  const agent = spawn(process.execPath, ["--input-type=module", "-e", program], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const told = new Map<string, number>();
  for await (const line of createInterface({ input: agent.stdout })) {
    const [id = "", number] = line.split(" ");
    told.set(id, Number(number));
    // Often enough that the journal was written anew meanwhile.
    if (!agent.killed && Number(number) > 150) agent.kill("SIGKILL");
  }
  if (agent.exitCode === null && agent.signalCode === null) await once(agent, "exit");
  const found = await texts();
  for (const [id, number] of told) expect(Number(found[id])).toBeGreaterThanOrEqual(number);
});

it("[NM222] changes that are made at once are all there, the last one of a name counting", async () => {
  const records = open();
  const ids = Array.from({ length: 100 }, (_, index) => `record-${index}`);
  await Promise.all([
    ...ids.map((id) => records.write(id, { id, text: "first" })),
    ...ids.map((id) => records.write(id, { id, text: "last" })),
    records.remove("record-0"),
  ]);
  expect(await texts()).toEqual(Object.fromEntries(ids.slice(1).map((id) => [id, "last"])));
});

it("[NM222] a line that cannot be understood costs no other one, and is kept for whoever looks", async () => {
  const records = open();
  await records.write("a", { id: "a", text: "1" });
  await records.write("b", { id: "b", text: "2" });
  const [first = "", second = ""] = readFileSync(journal(), "utf8").split("\n");
  writeFileSync(journal(), `${first}\n${first.replace('"a"', '"c"').slice(0, -4)}\n${second}\n`);
  expect(await texts()).toEqual({ a: "1", b: "2" });
  expect(lines).toMatchObject([{ event: "state.read", outcome: "1 records cannot be understood" }]);
  expect(readFileSync(journal("journal.corrupt"), "utf8")).toContain('["c",');
});

it("[NM223] the journal stays in proportion to what is in it", async () => {
  const records = open();
  const text = "x".repeat(100_000);
  await records.write("kept", { id: "kept", text: "since the beginning" });
  for (let number = 0; number < 40; number++) await records.write("a", { id: "a", text });
  expect(statSync(journal()).size).toBeLessThan(1_100_000);
  await records.remove("a");
  expect(await texts()).toEqual({ kept: "since the beginning" });
});

it("[NM223] nothing is written for a record that is not there", async () => {
  await open().remove("nobody");
  expect(readdirSync(directory)).toEqual([]);
});

it("[NM224] what a former agent kept in files is taken over, and its files go", async () => {
  writeFileSync(journal("a.json"), JSON.stringify({ id: "a", text: "of a file" }));
  writeFileSync(journal("b.json"), JSON.stringify({ id: "b", text: "of a file" }));
  writeFileSync(journal("c.json"), '{"id":');
  writeFileSync(journal("d.json.tmp"), '{"id":');
  const records = open();
  expect(textsOf(await records.readAll())).toEqual({ a: "of a file", b: "of a file" });
  expect(lines).toMatchObject([{ event: "state.read" }]);
  await records.write("b", { id: "b", text: "of the journal" });
  expect(readdirSync(directory)).toEqual(["journal"]);
  expect(await texts()).toEqual({ a: "of a file", b: "of the journal" });
});

it("[NM224] what is in the journal counts where a former agent's file is left beside it", async () => {
  await open().write("a", { id: "a", text: "of the journal" });
  writeFileSync(journal("a.json"), JSON.stringify({ id: "a", text: "of a file" }));
  expect(await texts()).toEqual({ a: "of the journal" });
});

it("[NM224] records of a later agent are neither read nor written over", async () => {
  await open().write("a", { id: "a", text: "1" });
  const before = readFileSync(journal(), "utf8");
  const older = open(() => {
    throw new NewerFormatError("of a later agent");
  });
  await expect(older.readAll()).rejects.toThrow("of a later agent");
  await expect(older.write("b", { id: "b", text: "2" })).rejects.toThrow("of a later agent");
  expect(readFileSync(journal(), "utf8")).toBe(before);
});

it("[NM225] a change that cannot be written says so, and costs nothing of what was there", async () => {
  await open().write("a", { id: "a", text: "1" });
  // The first change of an agent's life writes the journal anew, and cannot.
  const records = open();
  await records.readAll();
  mkdirSync(journal("journal.tmp"));
  await expect(records.write("b", { id: "b", text: "2" })).rejects.toThrow("EISDIR");
  expect([...storedRecords(directory).keys()]).toEqual(["a"]);
  rmdirSync(journal("journal.tmp"));
  await records.write("c", { id: "c", text: "3" });
  expect(await texts()).toEqual({ a: "1", c: "3" });
});

it("[NM225] after a change that was written in part, the next one does not follow it", async () => {
  const records = open();
  await records.write("a", { id: "a", text: "1" });
  const whole = readFileSync(journal());
  // A disk that takes half of a line, and no more.
  rmSync(journal());
  mkdirSync(journal());
  await expect(records.write("b", { id: "b", text: "2" })).rejects.toThrow("EISDIR");
  rmdirSync(journal());
  writeFileSync(journal(), Buffer.concat([whole, Buffer.from('["b",{"id"')]));
  await records.write("c", { id: "c", text: "3" });
  expect(await texts()).toEqual({ a: "1", c: "3" });
  expect(lines).toEqual([]);
});
