/**
 * Query parameters that several routes take. Numbers arrive as text, lists as repeated parameters
 * or with commas. Parameters nobody asked for are ignored, as Hadoop ignores them.
 */
import * as z from "zod";
import { didYouMeanClause } from "../shared/did-you-mean.ts";
import { userNameSchema } from "../shared/names.ts";

const WHOLE_NUMBER = /^-?\d{1,15}$/;

/** `?user=joe`: whose things are meant; administrators only, unless it is the caller. */
export const userParameter = { user: userNameSchema.optional() };

const APPLICATION_ID = /^application_\d{1,16}_\d{4,16}$/;

export const applicationParameters = z.object({
  application: z
    .string()
    .regex(APPLICATION_ID, "an application id is such as application_1503963985568_0002"),
});

/** A whole number between `min` and `max`, or `fallback` when it is not given. */
export function wholeNumber(min: number, max: number, fallback: number) {
  return z
    .string()
    .refine(
      (text) => WHOLE_NUMBER.test(text) && Number(text) >= min && Number(text) <= max,
      `must be a whole number from ${min} to ${max}`,
    )
    .transform(Number)
    .optional()
    .transform((value) => value ?? fallback);
}

/** `?since=1763740800000`: epoch ms. */
export const sinceParameter = {
  since: z
    .string()
    .regex(/^\d{1,15}$/, "must be a time in milliseconds since 1970")
    .transform(Number)
    .optional()
    .describe("What is known to have been written before it (epoch ms) is left out."),
};

/** `?states=A,B&states=C` as a list; an absent parameter is undefined and filters nothing. */
export function listParameter() {
  return z
    .union([z.string(), z.array(z.string())])
    .transform((value) => [value].flat().flatMap((text) => text.split(",")))
    .transform((values) => values.map((value) => value.trim()).filter((value) => value !== ""))
    .optional();
}

/** A list of words out of `known`, in any case. `aliases` maps other names for them. */
export function wordsParameter<Word extends string>(
  known: readonly Word[],
  aliases: Readonly<Record<string, Word>> = {},
) {
  const words = new Map<string, Word>(known.map((word) => [word, word]));
  for (const [alias, word] of Object.entries(aliases)) words.set(alias, word);
  const described = listParameter().describe(`Out of ${known.join(", ")}; several with commas.`);
  return described.transform((values, context) => {
    if (values === undefined) return undefined;
    return values.flatMap((value) => {
      const word = words.get(value.toUpperCase());
      if (word !== undefined) return [word];
      context.addIssue({
        code: "custom",
        message: `${JSON.stringify(value.slice(0, 64))} is none of ${known.join(", ")}${didYouMeanClause(value, known)}`,
      });
      return [];
    });
  });
}
