/**
 * `<template data-filter="#list">` holds a search field that is shown only if it can work. It hides the items of the
 * list whose `data-text` lacks a typed word, and shows how many are left.
 */
export function filterLists(root: ParentNode): void {
  for (const template of root.querySelectorAll<HTMLTemplateElement>("template[data-filter]")) {
    const list = root.querySelector(template.dataset["filter"] ?? "");
    if (!list) continue;
    const field = template.content.cloneNode(true) as DocumentFragment;
    const input = field.querySelector("input");
    const count = field.querySelector("output");
    template.replaceWith(field);
    input?.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const left = filter(list, words);
      if (count) count.textContent = words.length === 0 ? "" : `${left} of ${list.children.length}`;
    });
  }
}

function filter(list: Element, words: readonly string[]): number {
  let left = 0;
  for (const item of list.querySelectorAll<HTMLElement>(":scope > [data-text]")) {
    const text = (item.dataset["text"] ?? "").toLowerCase();
    item.hidden = !words.every((word) => text.includes(word));
    if (!item.hidden) left += 1;
  }
  return left;
}
