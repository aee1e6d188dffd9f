import type { Review, Saved } from "../../contract/review.ts";
import type { CurrentDraft, Draft } from "../../lib/draft.ts";
import type { Problem } from "../../lib/problem.ts";
import { readError } from "../shared/api.ts";
import { asksForToken, withTyped } from "../shared/ask-token.ts";

/** The JSON API of edits, as pages use it. The outcome of a save is a value, not an exception. */

export type SaveOutcome =
  | ({ readonly kind: "saved" } & Saved)
  /** In all of the following, nothing was changed. */
  | { readonly kind: "refused"; readonly problems: readonly Problem[] }
  | { readonly kind: "breaking"; readonly review: Review }
  | { readonly kind: "moved"; readonly current: string | null }
  /** It takes a token, or a different one. */
  | { readonly kind: "forbidden"; readonly message: string }
  | { readonly kind: "failed"; readonly message: string };

/** `url` is the address of one variable, definition or entry under /api. */
export class EditApi {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  async current(): Promise<CurrentDraft | undefined> {
    const response = await fetch(this.#url, { headers: { Accept: "application/json" }, cache: "no-store" });
    return response.status === 404 ? undefined : await bodyOf<CurrentDraft>(response);
  }

  async version(cid: string): Promise<Draft | undefined> {
    const response = await fetch(`${this.#url}/versions/${cid}`, { headers: { Accept: "application/json" } });
    return response.status === 404 ? undefined : await bodyOf<Draft>(response);
  }

  /** Reviews what saving would do. A null draft deletes. */
  async review(draft: Draft | null, signal: AbortSignal): Promise<Review> {
    return await bodyOf<Review>(await fetch(`${this.#url}/review`, { ...sending("POST", draft), signal }));
  }

  /** `expected` is the CID that the writer saw; null if there was nothing. */
  async save(draft: Draft | null, expected: string | null, allowBreaking: boolean): Promise<SaveOutcome> {
    const request = sending(draft === null ? "DELETE" : "PUT", draft);
    if (expected === null) request.headers["If-None-Match"] = "*";
    else request.headers["If-Match"] = `"${expected}"`;
    if (allowBreaking) request.headers["Berth-Allow-Breaking"] = "true";
    try {
      return outcomeOf(await fetch(this.#url, request));
    } catch (error) {
      return { kind: "failed", message: `Berth could not be reached (${(error as Error).message})` };
    }
  }
}

async function outcomeOf(response: Response): Promise<SaveOutcome> {
  if (response.ok) {
    const { cid, review } = (await response.json()) as Saved;
    return { kind: "saved", cid, review };
  }
  const { code, message, data } = await readError(response);
  if (code === "edit_refused") return { kind: "refused", problems: (data["problems"] ?? []) as Problem[] };
  if (code === "edit_breaking") return { kind: "breaking", review: data["review"] as Review };
  if (code === "name_conflict") return { kind: "moved", current: (data["current"] ?? null) as string | null };
  return { kind: asksForToken(code) ? "forbidden" : "failed", message };
}

function sending(method: string, draft: Draft | null): RequestInit & { headers: Record<string, string> } {
  const headers: Record<string, string> = withTyped({ Accept: "application/json" });
  if (method === "DELETE") return { method, headers };
  return { method, headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(draft) };
}

async function bodyOf<T>(response: Response): Promise<T> {
  if (!response.ok) throw new Error((await readError(response)).message);
  return (await response.json()) as T;
}
