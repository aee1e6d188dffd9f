import { createServer } from "node:net";

/** Takes messages by SMTP; the answer to each tells what it was. */
export function smtpServer() {
  return createServer((socket) => {
    const envelope = [];
    let message;
    const say = (line) => socket.write(`${line}\r\n`);
    say("220 stand-in ESMTP");
    lines(socket, (line) => {
      if (message) {
        if (line !== ".") return void message.push(line);
        const subject = message.find((each) => each.startsWith("Subject:"));
        say(`250 ${envelope.join(" ")} ${subject}, ${message.length > 3 ? "with a body" : "empty"}`);
        return void (message = undefined);
      }
      const [word] = line.toUpperCase().split(" ");
      if (word === "EHLO") return say("250-stand-in\r\n250-AUTH PLAIN\r\n250 8BITMIME");
      if (word === "AUTH") return say(line.endsWith(base64("\0user\0right")) ? "235 ok" : "535 wrong");
      if (word === "MAIL" || word === "RCPT") envelope.push(/<.*?>/.exec(line)[0]);
      if (word === "DATA") {
        message = [];
        return say("354 go on");
      }
      say(word === "QUIT" ? "221 bye" : "250 ok");
      if (word === "QUIT") socket.end();
    });
  });
}

/** Shows one message by IMAP. */
export function imapServer() {
  const envelope =
    '("Mon, 1 Jan 2024 00:00:00 +0000" "Hello" (("Ada" NIL "ada" "example.com")) NIL NIL NIL NIL NIL NIL "<1@x>")';
  const answers = {
    CAPABILITY: ["CAPABILITY IMAP4rev1"],
    NAMESPACE: ['NAMESPACE (("" "/")) NIL NIL'],
    LIST: ['LIST (\\HasNoChildren) "/" "INBOX"'],
    LSUB: ['LSUB (\\HasNoChildren) "/" "INBOX"'],
    SELECT: ["FLAGS (\\Seen)", "1 EXISTS", "0 RECENT", "OK [UIDVALIDITY 1] valid", "OK [UIDNEXT 2] next"],
    FETCH: [`1 FETCH (UID 1 ENVELOPE ${envelope})`],
    LOGOUT: ["BYE"],
  };
  return createServer((socket) => {
    socket.write("* OK [CAPABILITY IMAP4rev1] ready\r\n");
    lines(socket, (line) => {
      const [tag, first, second = ""] = line.split(" ");
      const word = (first === "UID" ? second : (first ?? "")).toUpperCase();
      if (word === "LOGIN" && !/ "?user"? "?right"?$/.test(line)) return void socket.write(`${tag} NO wrong\r\n`);
      for (const answer of answers[word] ?? []) socket.write(`* ${answer}\r\n`);
      socket.write(`${tag} OK done\r\n`);
      if (word === "LOGOUT") socket.end();
    });
  });
}

function lines(socket, take) {
  let rest = "";
  socket.setEncoding("utf8").on("data", (text) => {
    const all = (rest + text).split("\r\n");
    rest = all.pop();
    for (const line of all) take(line);
  });
  socket.on("error", () => socket.destroy());
}

function base64(text) {
  return Buffer.from(text).toString("base64");
}
