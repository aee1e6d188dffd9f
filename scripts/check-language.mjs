// Finds wording that is not plain English: words and phrases, names, beginnings of test titles, long sentences. Each kind
// has a maximum, which may only be lowered. `--list [kind]` prints the findings.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import ts from "typescript";

const MAXIMA = { word: 1241, name: 2314, title: 744, sentence: 4 };

/** Patterns, each with better terms. They go by sense where they can: a letter of the alphabet is a letter. */
const WORDS = [
  [/\b(?:nobody|no one|whoever|whosoever)\b/i, "no client, no user, the caller"],
  [/\banew\b/i, "again"],
  [/\bfor ever\b/i, "permanently"],
  [/\bunder way\b/i, "in progress"],
  [/\berrands?\b/i, "node request"],
  [/\bstrangers?\b/i, "anonymous caller"],
  [/\bprocessors?(?! architecture)\b/i, "CPU, CPU time"],
  [/\bmend(?:s|ed|ing)?\b/i, "fix"],
  [/\bbesides?\b/i, "next to, in addition to"],
  [
    /\b(?:a|the|one|each|every|its|these|such|no|in) letters?\b(?! (?:case|or (?:a )?digit|and digit|of the alphabet))/i,
    "message",
  ],
  [/\bletters (?:to|from|between|that|are|of (?!the alphabet))/i, "messages"],
  [/\b(?:is|are|was|were|be) none\b/i, "is invalid, is not a …"],
  [/\bhears? (?:of|from|that|what|nothing)\b|\bheard of\b/i, "is notified of"],
  [/\bgiv(?:e|es|ing|en) way\b/i, "lowers its priority"],
  [/\bsigns? of life\b/i, "heartbeat"],
  [/\bas (?:it|they) stands?\b/i, "current"],
  [/\bof (?:its|their) own accord\b/i, "automatically"],
  [/\bone after (?:the other|another)\b/i, "sequentially"],
  [/\bgrowing distance\b/i, "backoff"],
  [/\b(?:no|has|have|there is|make|makes|for|more|enough) room\b/i, "capacity, quota"],
  [
    /\b(?:is|are|was|were|be|been|being|not|and) told\b|\btells? (?:of|them|it|the client|clients|listeners)\b/i,
    "is notified, reports",
  ],
  [/\b(?:is|are|was|were|be) said\b/i, "is reported"],
  [/\bcarr(?:y|ies|ied|ying) (?:it |them )?out\b/i, "execute, run"],
  [/\b(?:of|by|from|with|for|to) others\b|\bothers'/i, "other tenants, other clients, upstreams"],
  [/\blikewise\b/i, "(delete)"],
  [/\b(?:has|have|is|are|had) (?:it |them )?in hand\b/i, "is processing"],
  [/\bhold(?:s|ing)? (?:it |that |them |the \w+ )?(?:up|back)\b|\bheld (?:up|back)\b/i, "block; withhold"],
  [
    /\b(?:it|that|they|which|there|what|\w+s?) stands? (?:in|here|there|before|after|beside|at|on|under|as)\b/i,
    "is stored in, is listed in",
  ],
  [/\bgoes? on (?:as|being|until|without)\b/i, "continues"],
  [/\b(?:who|which) (?:may|can|has|is) (?:have|be) what\b/i, "(say which)"],
  [/\bat a time that\b|\bby then\b.*\bby then\b/i, "(rewrite)"],
  [/\bto hand\b/i, "available"],
  [/\bways? (?:in|out)\b(?! (?:which|that))/i, "ingress, egress"],
];

const NAMES =
  /^(?:told|said|foreseen|would|was|were|stood|stands|anew|nobody|somebody|wanted|given|known|asker|errands?|letters?|strangers?|stray|unheard\w*|aside|mend\w*)$/i;
const COMPOUND =
  /^(?:told|said|foreseen|errand|letter|asker|unheard)[A-Z]|(?:Told|Said|Foreseen|Errands?|Letters?|Stranger|Anew|Asker|Ofs?)$/;
const TITLE = /^(?:and|or|but|nor|that|which|who|whose|whom|of|is|are|has|have|was|were|what|whatever|whether)\b/i;
const LONGEST = 45;

/** Uses that are right, each with its reason. */
const ALLOWED = [
  [/scripts\/check-language\.mjs$/, /./, "the patterns themselves"],
  [/CHANGELOG\.md$/, /./, "a record of the past"],
  [/requirements\.md$/, /./, "rows that the mission words"],
];

const found = [];
function note(kind, file, line, text, hint) {
  if (ALLOWED.some(([files, texts]) => files.test(file) && texts.test(text))) return;
  found.push({ kind, file, line, text: text.replace(/\s+/g, " ").trim(), hint });
}

function prose(file, line, text) {
  const plain = text.replace(/`[^`\n]*`/g, "`x`");
  for (const [pattern, hint] of WORDS) {
    const match = pattern.exec(plain);
    if (match)
      note("word", file, line, plain.slice(Math.max(0, match.index - 40), match.index + 60), `“${match[0]}”: ${hint}`);
  }
}

function sentences(file, line, text) {
  for (const sentence of text.replace(/https?:\S+/g, "URL").split(/(?<=[.!?:;])\s+|\n\s*\n|\n\s*[-*|]/)) {
    const { length } = sentence.split(/\s+/).filter((word) => /\w/.test(word));
    if (length > LONGEST) note("sentence", file, line, sentence, `${length} words`);
  }
}

function code(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const lineOf = (at) => source.getLineAndCharacterOfPosition(at).line + 1;
  for (const { index, 0: comment } of text.matchAll(/\/\*\*?[^]*?\*\/|(?:^[ \t]*\/\/.*\n)+|\/\/ .*/gm)) {
    const inner = comment.replace(/^\s*(?:\/\*\*?|\*\/|\*|\/\/)|\*\/$/gm, "");
    inner.split("\n").forEach((each, more) => prose(file, lineOf(index) + more, each));
    sentences(file, lineOf(index), inner);
  }
  const visit = (node) => {
    if (
      ts.isStringLiteralLike(node) ||
      (node.kind >= ts.SyntaxKind.TemplateHead && node.kind <= ts.SyntaxKind.TemplateTail)
    ) {
      const title =
        ts.isCallExpression(node.parent) &&
        node.parent.arguments[0] === node &&
        /^(?:it|test)\b/.test(node.parent.expression.getText());
      if (title && TITLE.test(node.text))
        note("title", file, lineOf(node.getStart()), node.text, "begin with the subject or a verb");
      if (/ .* /.test(node.text)) prose(file, lineOf(node.getStart()), node.text);
    }
    const { name } = node;
    if (name && ts.isIdentifier(name) && node.kind !== ts.SyntaxKind.PropertyAccessExpression) {
      if (NAMES.test(name.text) || COMPOUND.test(name.text))
        note("name", file, lineOf(name.getStart()), name.text, "a noun or a verb that a stranger guesses");
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
}

for (const file of execFileSync("git", ["ls-files"], { encoding: "utf8", maxBuffer: 2 ** 24 }).split("\n")) {
  if (!existsSync(file) || /^boot\/|fixtures|package-lock|^test\/.*\.json/.test(file)) continue;
  if (/\.m?[jt]s$/.test(file)) code(file, readFileSync(file, "utf8"));
  else if (/\.(?:md|hbs)$/.test(file)) {
    let text = readFileSync(file, "utf8").replace(/```[^]*?```|<!--[^]*?-->/g, (block) => block.replace(/[^\n]/g, ""));
    if (file.endsWith(".hbs")) text = text.replace(/{{[^]*?}}|<[^>]*>/g, (part) => part.replace(/[^\n]/g, ""));
    text.split("\n").forEach((each, index) => prose(file, index + 1, each));
    if (file.endsWith(".md"))
      for (const part of text.split(/\n\s*\n|\n(?=[|#*-])/))
        if (!part.startsWith("|")) sentences(file, text.slice(0, text.indexOf(part)).split("\n").length, part);
  }
}

const [, , flag, only] = process.argv;
for (const [kind, most] of Object.entries(MAXIMA)) {
  const all = found.filter((each) => each.kind === kind);
  if (flag === "--list" ? !only || only === kind : all.length > most)
    for (const { file, line, text, hint } of all) console.error(`${file}:${line}: ${text.slice(0, 140)} (${hint})`);
  console.error(`${kind}: ${all.length} found, ${most} allowed`);
  if (all.length > most) process.exitCode = 1;
}
