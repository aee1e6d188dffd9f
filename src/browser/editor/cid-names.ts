import type { Extension } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  MatchDecorator,
  ViewPlugin,
  type ViewUpdate,
  WidgetType,
} from "@codemirror/view";
import { element } from "../shared/dom.ts";

/** Shows the name of the file behind each of these CIDs after it, in the text but not of it. */
export function cidNames(names: ReadonlyMap<string, string>): Extension {
  if (names.size === 0) return [];
  const marks = new MatchDecorator({
    regexp: /"(b[a-z2-7]{58,})"/g,
    decorate(add, _from, to, [, cid = ""]) {
      const name = names.get(cid);
      if (name !== undefined) add(to, to, Decoration.widget({ widget: new FileName(name), side: 1 }));
    },
  });
  return ViewPlugin.define(
    (view) => ({
      shown: marks.createDeco(view),
      update(update: ViewUpdate) {
        this.shown = marks.updateDeco(update, this.shown);
      },
    }),
    { decorations: (plugin: { shown: DecorationSet }) => plugin.shown },
  );
}

class FileName extends WidgetType {
  readonly #name: string;

  constructor(name: string) {
    super();
    this.#name = name;
  }

  override eq(other: FileName): boolean {
    return other.#name === this.#name;
  }

  override toDOM(): HTMLElement {
    return element("span", { className: "cid-name" }, ` ${this.#name}`);
  }
}
