import ExcelJS from "exceljs";

/** Writes a workbook, and reads it again. */
export async function sheet(): Promise<{ sheets: string[]; total: unknown; name: unknown }> {
  const workbook = new ExcelJS.Workbook();
  const made = workbook.addWorksheet("My Sheet");
  made.columns = [
    { header: "Id", key: "id", width: 10 },
    { header: "Name", key: "name", width: 32 },
  ];
  made.addRow({ id: 1, name: "John Doe" });
  made.getCell("A3").value = { formula: "SUM(A2:A2)", result: 1 };
  const bytes = await workbook.xlsx.writeBuffer();
  const again = new ExcelJS.Workbook();
  await again.xlsx.load(bytes);
  const read = again.getWorksheet("My Sheet");
  return {
    sheets: again.worksheets.map(({ name }) => name),
    total: read?.getCell("A3").result,
    name: read?.getCell("B2").value,
  };
}
