import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** The look of editors, in the colours of the page: variables with a light and a dark value (views/editor.css). */
export function editorTheme(styleNonce: string): Extension {
  return [EditorView.cspNonce.of(styleNonce), look, syntaxHighlighting(code)];
}

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--panel)", fontSize: "0.8125rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", overflow: "auto" },
  ".cm-content": { padding: "0.6rem 0", caretColor: "var(--text)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--code-selection)",
  },
  ".cm-activeLine": { backgroundColor: "var(--code-line)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--code-line)", color: "var(--text)" },
  ".cm-foldPlaceholder": { background: "var(--sunken)", border: "1px solid var(--line)", color: "var(--muted)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--code-match)" },
  "&.cm-focused .cm-nonmatchingBracket": { backgroundColor: "var(--bad-soft)" },
  ".cm-selectionMatch": { backgroundColor: "var(--code-match)" },
  ".cm-searchMatch": { backgroundColor: "var(--warn-soft)", outline: "1px solid var(--warn)" },

  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--text)" },
  ".cm-panels.cm-panels-bottom": { borderTop: "1px solid var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--panel)", border: "1px solid var(--line-strong)", fontSize: "inherit" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--panel)", border: "1px solid var(--line-strong)" },

  ".cm-tooltip": {
    backgroundColor: "var(--panel)",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    boxShadow: "0 4px 16px rgb(0 0 0 / 0.16)",
    maxWidth: "min(34rem, 92vw)",
  },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "0.15rem 0.5rem", lineHeight: "1.5" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { background: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { fontStyle: "normal", color: "var(--muted)", marginLeft: "0.75rem" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-completionInfo": { padding: "0.4rem 0.6rem", fontFamily: "var(--sans)", maxWidth: "20rem" },
  ".cm-tooltip .explanation": { padding: "0.4rem 0.6rem", fontFamily: "var(--sans)" },
  ".cm-tooltip .explanation p": { margin: "0.2rem 0 0" },
  ".cm-tooltip .explanation span": { color: "var(--muted)" },

  ".cm-diagnostic": { padding: "0.4rem 0.6rem", fontFamily: "var(--sans)", whiteSpace: "pre-wrap" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "3px solid var(--warn)" },
  ".cm-lintRange": { backgroundImage: "none", textDecoration: "underline wavy 1px", textUnderlineOffset: "3px" },
  ".cm-lintRange-error": { textDecorationColor: "var(--bad)", backgroundColor: "var(--bad-soft)" },
  ".cm-lintRange-warning": { textDecorationColor: "var(--warn)" },

  ".cm-changedLine, .cm-insertedLine": { backgroundColor: "var(--good-soft) !important" },
  ".cm-deletedChunk": { backgroundColor: "var(--bad-soft)", paddingBlock: "0.1rem" },
  "&.cm-merge-a .cm-changedLine": { backgroundColor: "var(--bad-soft) !important" },
  ".cm-changedText": { background: "none", textDecoration: "underline 2px var(--good)", textUnderlineOffset: "3px" },
  "&.cm-merge-a .cm-changedText, .cm-deletedChunk .cm-deletedText": {
    background: "none",
    textDecoration: "underline 2px var(--bad)",
    textUnderlineOffset: "3px",
  },
  ".cm-deletedLine, .cm-deletedLine del": { textDecoration: "none" },
  ".cm-insertedLine": { textDecoration: "none" },
  ".cm-chunkButtons": { insetInlineEnd: "0.4rem", display: "flex", gap: "0.3rem", paddingTop: "0.1rem" },
  ".cm-deletedChunk .cm-chunkButtons button": {
    margin: "0",
    padding: "0 0.5rem",
    border: "1px solid var(--line-strong)",
    borderRadius: "6px",
    background: "var(--panel)",
    color: "var(--text)",
    font: "600 0.75rem/1.6 var(--sans)",
  },
  ".cm-collapsedLines": {
    background: "var(--sunken)",
    color: "var(--muted)",
    font: "0.75rem/1.8 var(--sans)",
    padding: "0 0.6rem",
  },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: '"⋯"' },
});

const code = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.controlKeyword], color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-literal)" },
  { tag: [tags.comment, tags.docComment], color: "var(--code-comment)" },
  { tag: [tags.propertyName, tags.attributeName], color: "var(--code-name)" },
  { tag: [tags.typeName, tags.className, tags.namespace], color: "var(--code-type)" },
  {
    tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.definition(tags.variableName)],
    color: "var(--code-name)",
  },
  { tag: tags.invalid, color: "var(--bad)" },
]);
