/**
 * Streams into containers: a program run beside the container's own (exec), or bytes to and from one
 * of its ports. The user and the node each open a WebSocket, and the NodeTunnel between them passes
 * their frames on (stream-frame.ts), one pair of sockets for each stream.
 */
import * as z from "zod";
import { fail, type Reply } from "../errors.ts";
import { isContainerId } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import { userNameSchema } from "../names.ts";
import { validate } from "../validation.ts";

/** `GET /ws/v1/cluster/containers/{id}/exec`: what to run, as `formatExecHeader` writes it. */
export const EXEC_HEADER = "x-selvedge-exec";
/** `GET /ws/v1/node/streams/{id}`: the secret that the node was told. */
export const STREAM_SECRET_HEADER = "x-selvedge-stream-secret";

const terminalSide = z.int().min(1).max(65_535);

/** What is run: words, not a line for a shell. */
export const execRequestSchema = z.strictObject({
  command: z
    .array(z.string().regex(/^[^\0]*$/, "a word without NUL"))
    .min(1)
    .max(LIMITS.execWordsMax),
  /** The program reads what the user sends; without it, it reads the end of a file. */
  stdin: z.boolean().default(false),
  /** In a terminal of this size, `TERM` being what the user's own terminal is. */
  tty: z
    .strictObject({
      columns: terminalSide,
      rows: terminalSide,
      term: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9+._-]{0,63}$/, "a terminal such as xterm"),
    })
    .optional(),
});
export type ExecRequest = z.infer<typeof execRequestSchema>;

export const streamPortSchema = z.int().min(1).max(65_535);

export const streamRequestSchema = z.discriminatedUnion("kind", [
  execRequestSchema.extend({ kind: z.literal("exec") }),
  z.strictObject({ kind: z.literal("forward"), port: streamPortSchema }),
]);
export type StreamRequest = z.infer<typeof streamRequestSchema>;

export const streamOpeningSchema = z.strictObject({
  containerId: z.string().refine(isContainerId, "a container id"),
  /** Who asks; whether he may was decided before. */
  user: userNameSchema,
  request: streamRequestSchema,
});
export type StreamOpening = z.infer<typeof streamOpeningSchema>;

/** As the text of one header. */
export function formatExecHeader(request: ExecRequest): string {
  return encodeURIComponent(JSON.stringify(request));
}

/** INVALID_ARGUMENT with what is wrong in it. */
export function parseExecHeader(text: string | undefined): Reply<ExecRequest> {
  if (text === undefined) {
    return fail("INVALID_ARGUMENT", `the header ${EXEC_HEADER} says what to run, and is missing`, {
      hint: 'it holds JSON, percent-encoded: {"command": ["date", "-u"]}',
    });
  }
  if (text.length > LIMITS.execHeaderLengthMax) {
    return fail(
      "INVALID_ARGUMENT",
      `the command is too long: encoded it has ${text.length} characters of ${LIMITS.execHeaderLengthMax}`,
      { hint: "send what is long by stdin, such as: selvedge container exec -i … -- sh < script" },
    );
  }
  try {
    return validate(execRequestSchema, JSON.parse(decodeURIComponent(text)));
  } catch {
    return fail("INVALID_ARGUMENT", `the header ${EXEC_HEADER} holds no percent-encoded JSON`);
  }
}
