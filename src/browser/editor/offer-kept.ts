import { isSameDraft } from "./draft.ts";
import { button, element } from "../shared/dom.ts";
import type { EditedText } from "./edited-text.ts";
import { keepDraft, keptDraft } from "./kept-draft.ts";
import type { Notices } from "../shared/notices.ts";
import { timeOf } from "./time.ts";

/** If a text was left unsaved at `url`, says so and lets the person continue with it. */
export function offerKeptDraft(url: string, text: EditedText, notices: Notices): void {
  const kept = keptDraft(url);
  if (!kept || isSameDraft(kept.draft, text.base.draft)) return;
  const later = kept.base === text.base.cid ? "" : " Someone saved since; when you save, you will see both.";
  notices.show(
    "draft",
    "warn",
    element("p", {}, `There is text of yours from ${timeOf(kept.at)} that was not saved.${later}`),
    element(
      "div",
      { className: "choices" },
      button("Go on with it", () => {
        // Its base decides if somebody else saved first.
        text.base = { ...text.base, cid: kept.base };
        text.files.replace(kept.draft);
        notices.clear("draft");
      }),
      button("Discard it", () => {
        keepDraft(url, undefined);
        notices.clear("draft");
      }),
    ),
  );
}
