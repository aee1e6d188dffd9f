import type { Extension } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  EditorView,
  MatchDecorator,
  ViewPlugin,
  type ViewUpdate,
  WidgetType,
} from "@codemirror/view";
import { element } from "../shared/dom.ts";

/**
 * Shows the name of the file behind each of these CIDs, and the CID itself in short: the text and what is copied of it
 * stay the same.
 */
export function cidNames(names: ReadonlyMap<string, string>): Extension {
  if (names.size === 0) return [];
  const marks = new MatchDecorator({
    regexp: /"(b[a-z2-7]{58,})"/g,
    decorate(add, from, to, [, cid = ""]) {
      const name = names.get(cid);
      if (name !== undefined) add(from, to, Decoration.replace({ widget: new FileName(name, cid) }));
    },
  });
  const plugin = ViewPlugin.define(
    (view) => ({
      shown: marks.createDeco(view),
      update(update: ViewUpdate) {
        this.shown = marks.updateDeco(update, this.shown);
      },
    }),
    { decorations: (value: { shown: DecorationSet }) => value.shown },
  );
  return [plugin, EditorView.atomicRanges.of((view) => view.plugin(plugin)?.shown ?? Decoration.none)];
}

class FileName extends WidgetType {
  readonly #name: string;
  readonly #cid: string;

  constructor(name: string, cid: string) {
    super();
    this.#name = name;
    this.#cid = cid;
  }

  override eq(other: FileName): boolean {
    return other.#name === this.#name && other.#cid === this.#cid;
  }

  override toDOM(): HTMLElement {
    const short = element("span", { className: "cid" }, `${this.#cid.slice(0, 8)}…${this.#cid.slice(-6)}`);
    return element("span", { className: "file-name", title: this.#cid }, this.#name, " ", short);
  }
}
