import type { EditApi } from "./api.ts";
import { button, element } from "../shared/dom.ts";
import type { EditedText } from "./edited-text.ts";
import type { LiveReview } from "./live-review.ts";
import { mergeDrafts } from "./merge-drafts.ts";
import type { Notices } from "../shared/notices.ts";
import { timeOf } from "./time.ts";

export interface ConflictParts {
  readonly api: EditApi;
  readonly text: EditedText;
  readonly notices: Notices;
  readonly review: LiveReview;
}

/**
 * Handles a save by somebody else after this page was loaded: merges both texts in the editor, and the person decides.
 */
export async function showConflict({ api, text, notices, review }: ConflictParts): Promise<void> {
  const { files, base } = text;
  const theirs = await api.current();
  if (!theirs) {
    text.base = { cid: null, draft: base.draft };
    const message = "Someone else deleted this meanwhile. Your text is still here; saving it makes it anew.";
    notices.show("conflict", "warn", element("p", {}, message));
    return;
  }
  const began = base.cid === null ? undefined : await api.version(base.cid);
  const mine = files.draft();
  const { draft, conflicts } = mergeDrafts({ base: began ?? theirs, mine, theirs });
  files.replace(draft);
  files.compareWith(theirs);
  text.base = { cid: theirs.cid, draft: theirs };
  text.keep();
  review.soon();
  const takeTheirs = button("Drop mine, take theirs", () => {
    files.compareWith(undefined);
    files.replace(theirs);
    notices.clear("conflict");
  });
  const asBefore = button("Leave theirs out of mine", () => files.replace(mine));
  notices.show(
    "conflict",
    "warn",
    element(
      "p",
      {},
      element("strong", {}, "Someone else saved meanwhile"),
      ` (by ${theirs.by}, ${timeOf(theirs.changedAt)}). Nothing is lost: your text is below, and was not saved.`,
    ),
    element("p", {}, conflictWords(conflicts)),
    element("p", {}, "Save goes over their version, which stays in the history."),
    element("div", { className: "choices" }, asBefore, takeTheirs),
  );
}

function conflictWords(conflicts: number): string {
  if (conflicts === 0) {
    return "Their changes are in your text now. What is marked is what your save would change of theirs.";
  }
  const places = conflicts === 1 ? "one place was changed by both" : `${conflicts} places were changed by both`;
  return `Their other changes are in your text now; ${places}, and there it says what you wrote. What is marked is what your save would change of theirs: take theirs where you like it better.`;
}
