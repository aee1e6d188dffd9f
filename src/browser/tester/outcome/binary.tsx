/** Shows bytes by their type: images are shown, audio is played, everything can be saved. Nothing is ever run. */
export function Binary({ base64, type, name }: { base64: string; type: string; name: string }) {
  const bytes = Math.floor((base64.length * 3) / 4) - (/=*$/.exec(base64)?.[0].length ?? 0);
  const address = `data:${type};base64,${base64}`;
  return (
    <figure>
      {type.startsWith("image/") && <img src={address} alt={`${name} (${type})`} />}
      {type.startsWith("audio/") && <audio controls src={address} aria-label={`${name} (${type})`} />}
      <figcaption>
        {type}, {bytes.toLocaleString("en")} bytes ·{" "}
        <a href={`data:application/octet-stream;base64,${base64}`} download={fileName(name, type)}>
          Save
        </a>
      </figcaption>
    </figure>
  );
}

function fileName(name: string, type: string): string {
  const last = name.split(/[/\\?#]/).findLast((part) => part !== "") ?? "content";
  if (/\.\w+$/.test(last)) return last;
  const ending = /^[\w-]+\/(?:[\w.-]+\+)?([\w-]+)/.exec(type)?.[1] ?? "bin";
  return `${last.replaceAll(" ", "-")}.${ending}`;
}
