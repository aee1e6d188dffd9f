import { element } from "./dom.ts";

/** Notices for the person, above the text: the newest one of each topic. */
export interface Notices {
  readonly element: HTMLElement;
  show(topic: string, tone: "good" | "warn" | "bad", ...content: readonly (Node | string)[]): void;
  clear(...topics: readonly string[]): void;
}

export function openNotices(): Notices {
  const shown = new Map<string, HTMLElement>();
  const area = element("div", { className: "editor-notices" });
  area.setAttribute("aria-live", "polite");

  const clear = (...topics: readonly string[]): void => {
    for (const topic of topics) {
      shown.get(topic)?.remove();
      shown.delete(topic);
    }
  };

  return {
    element: area,
    show(topic, tone, ...content) {
      clear(topic);
      const notice = element("div", { className: `notice ${tone}` }, ...content);
      shown.set(topic, notice);
      area.append(notice);
    },
    clear,
  };
}
