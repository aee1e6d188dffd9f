import type { Scalar } from "../../contract/parameter-headers.ts";
import type { GuestOutcome } from "../../executor/executor.ts";
import type { Draft } from "../../lib/draft.ts";
import type { ErrorCode } from "../../lib/errors.ts";
import type { JsonDigest, JsonObject, JsonSchema } from "../../lib/json.ts";
import type { LongEvent } from "../../upstream/messages/long-answers.ts";
import type { Completion, InputRequired } from "../offers/catalog.ts";
import type { Bare } from "../offers/content.ts";
import type { LongObjectParts, LongResultParts } from "../offers/long-result.ts";
import type { SchemaCode } from "./schema-code.ts";

/** The tasks of the check process, and what it reports of each: all that crosses between it and the service. */

export interface CheckTask {
  /** JSON text, as `value` is; without a value only the schema is checked. */
  readonly schema: string;
  readonly texts: boolean;
  readonly value: string | undefined;
  readonly wantsCode: boolean;
  /** How much longer the value may become by defaults, in UTF-16 units of its text. */
  readonly filledMax: number;
  readonly wantsDigest: boolean;
}

/** The task of reading a body. */
export interface ReadTask {
  readonly body: string;
  readonly valuesMax: number;
  /** True if it is the arguments of a tool, not a message. */
  readonly isArguments: boolean;
}

/** The task of finding what goes into headers in arguments, which are JSON text. */
export interface ScalarsTask {
  readonly args: string;
  readonly paths: Paths;
}

export type Paths = readonly (readonly string[])[];

/** The task of finding what a script is given in arguments, which are JSON text. */
export interface TextsTask {
  readonly args: string;
  readonly names: readonly string[];
}

/** The task of reading a draft. */
export interface DraftTask {
  readonly draft: string;
  readonly filesMax: number;
}

/** The task of reading the result of a tool's function. */
export interface ResultTask {
  readonly frame: Uint8Array;
  readonly outputSchema: JsonSchema | undefined;
  /** True if its function does not say what it returns. */
  readonly promisesNothing: boolean;
}

export interface BoundedResultTask extends ResultTask {
  readonly outputBytes: number;
  /** The longest result as written, in UTF-16 units. */
  readonly unitsMax: number;
}

/** The kinds of results of functions that are no tools. */
export type OutcomeUse =
  | { readonly as: "resource"; readonly uri: string; readonly mimeType: string | undefined }
  | { readonly as: "prompt"; readonly name: string; readonly description: string | undefined }
  | { readonly as: "completion"; readonly start: string };

/** The task of reading the result of a function that is no tool. */
export interface OutcomeTask {
  /** The frame of its result. */
  readonly given: Uint8Array;
  readonly as: OutcomeUse;
  readonly outputBytes: number;
  readonly unitsMax: number;
}

/** An outcome that is still to be converted, or the object made of a long result. */
export type ReadOutcome = GuestOutcome | { readonly object: LongObjectParts };

export type OutcomeReader = (outcome: GuestOutcome, as: OutcomeUse) => Promise<ReadOutcome>;

/** The task of filling in a prompt. */
export interface FillTask {
  /** JSON text of the prompt as written. */
  readonly prompt: string;
  readonly argumentNames: readonly string[];
  /** In the same order. */
  readonly argumentTexts: readonly string[];
  /** How long it may become as JSON, in UTF-16 units. */
  readonly outputBytes: number;
}

/** The task of reading a message of an upstream. */
export interface UpstreamTask {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly isEvent: boolean;
  /** The values of a message that is not a result. */
  readonly valuesMax: number;
}

/** The task of reading a list. */
export interface ListTask {
  /** The frame of a function's result, or JSON in UTF-8. */
  readonly list: Uint8Array;
  readonly isFrame: boolean;
  /** The most bytes of its JSON text, in UTF-8. */
  readonly listBytes: number;
  readonly outputBytes: number;
}

/** The items; or why there are none, as the end of a sentence; or the bytes of a list that is too long. */
export type ReadList = { readonly items: readonly string[] } | { readonly fault: string } | { readonly bytes: number };

/** The task of converting a result, contents of a resource, or bytes. */
export interface RemakeTask {
  /** The pieces of JSON text, or the bytes. */
  readonly pieces: readonly (string | Uint8Array)[];
  readonly from: "result" | "contents" | "bytes";
  readonly into: RemadeInto;
  /** The longest outcome as written, in UTF-16 units. */
  readonly unitsMax: number;
}

export type RemadeInto =
  | { readonly as: "contents"; readonly uri: string; readonly mimeType: string | undefined }
  | { readonly as: "prompt"; readonly description: string | undefined }
  | { readonly as: "bare" }
  | { readonly as: "result" };

/** The converted value, or the text of a result that is an error. */
export type Remade =
  | { readonly object: LongObjectParts }
  | { readonly result: LongResultParts }
  | { readonly bare: Bare }
  | { readonly failed: string };

export type AnswerKind = "tool" | "task" | "resource" | "prompt" | "completion";

/** The task of reading the result of a request to an upstream. */
export interface AnswerTask {
  readonly answer: Uint8Array<ArrayBuffer>;
  readonly as: AnswerKind;
  readonly what: string;
  /** The longest result as written, in UTF-16 units. */
  readonly unitsMax: number;
}

export type CheckProcessTask =
  | CheckTask
  | ReadTask
  | ScalarsTask
  | TextsTask
  | DraftTask
  | BoundedResultTask
  | OutcomeTask
  | FillTask
  | UpstreamTask
  | RemakeTask
  | ListTask
  | AnswerTask;

/** The result of a request to an upstream, as it is passed on. */
export interface ReadAnswer {
  readonly tool?: LongResultParts | InputRequired;
  /** The text of an outcome that is a transient error. */
  readonly transient?: string;
  readonly warnings: readonly string[];
  readonly object?: LongObjectParts;
  readonly completion?: Completion;
  /** The members of a task, without the result that is in it. */
  readonly task?: JsonObject;
}

/** An outcome that is no tool result yet, the reason why its schema does not allow it, or the result. */
export type ReadGuestResult =
  | { readonly outcome: GuestOutcome }
  | { readonly broken: string }
  | { readonly result: LongResultParts };

export interface CheckReport {
  /** The reason why the schema is not valid. */
  readonly fault?: string;
  readonly problems: readonly string[];
  /** The value with its defaults, if they changed it. */
  readonly filled?: string;
  readonly digest?: JsonDigest;
  readonly quick?: SchemaCode;
  readonly read?: {
    /** JSON text, without the arguments of calls. */
    readonly message: string;
    readonly arguments: readonly { readonly at: number; readonly text: string; readonly digest: JsonDigest }[];
  };
  readonly scalars?: readonly (Scalar | undefined)[];
  readonly texts?: readonly (string | undefined)[];
  readonly draft?: Draft | null;
  readonly ended?: ReadGuestResult;
  readonly given?: ReadOutcome;
  /** Null where it is too long. */
  readonly prompted?: LongObjectParts | null;
  readonly upstream?: LongEvent;
  readonly remade?: Remade;
  readonly listed?: ReadList;
  readonly answered?: ReadAnswer | { readonly broken: string };
  /** The reason why a body is not read. */
  readonly refusal?: { readonly code: ErrorCode; readonly message: string };
}

/** The first message of the check process. */
export const READY = "ready";
