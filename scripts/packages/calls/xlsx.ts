import * as XLSX from "xlsx";

/** Writes a workbook, and reads it again. */
export function sheet(): unknown[] {
  const workbook = XLSX.utils.book_new();
  const rows = [
    { Name: "Bill Clinton", Index: 42 },
    { Name: "GeorgeW Bush", Index: 43 },
  ];
  XLSX.utils.book_append_sheet(workbook, XLSX.utils.json_to_sheet(rows), "Presidents");
  const bytes = XLSX.write(workbook, { type: "buffer", bookType: "xlsx" }) as Uint8Array;
  const again = XLSX.read(bytes);
  return XLSX.utils.sheet_to_json(again.Sheets["Presidents"]!);
}
