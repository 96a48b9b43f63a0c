/** What goes wrong while a resource is localized, on its way to the `Reply` of the service. */
import type { ErrorCode } from "../../shared/errors.ts";

export class LocalizationFailure extends Error {
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  /** True: the same request may succeed a moment later, so it is tried again. */
  readonly isTransient: boolean;

  /** `message` is a clause about the resource, such as "the server answered 404". */
  constructor(
    code: ErrorCode,
    message: string,
    { hint, isTransient = false }: { readonly hint?: string; readonly isTransient?: boolean } = {},
  ) {
    super(message);
    this.code = code;
    this.hint = hint;
    this.isTransient = isTransient;
  }
}
