import Basics

/// How a status is drawn: the width and the characters of its terminal.
struct StatusStyle: Sendable, Hashable {
    /// Columns of the terminal; nil cuts nothing.
    var columns: Int?
    /// Whether more than ASCII may be drawn.
    var isUTF8: Bool

    init(columns: Int? = nil, isUTF8: Bool) { (self.columns, self.isUTF8) = (columns, isUTF8) }

    /// The style for a locale's variables, in the order of setlocale(3).
    init(columns: Int? = nil, environment: [String: String]) {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].lazy.compactMap { environment[$0] }.first { !$0.isEmpty } ?? ""
        let name = locale.lowercased()
        self.init(columns: columns, isUTF8: name.contains("utf-8") || name.contains("utf8"))
    }

    /// Cells of a bar; on a narrow terminal most columns are left to the text behind it.
    var barCells: Int { columns.map { min(20, max(5, ($0 - 40) / 3)) } ?? 20 }

    /// Marks the end of a text that was cut.
    var mark: String { isUTF8 ? "…" : "..." }

    /// The done share of `total`, as a bar and in percent: `█████░░░░░  50%`. Full only when all is done, and empty only when
    /// nothing is.
    func bar(_ part: Int64, of total: Int64) -> String {
        let cells = barCells
        let share = total > 0 ? min(1, max(0, Double(part) / Double(total))) : 0
        var full = Int((share * Double(cells)).rounded())
        if share > 0 { full = max(1, full) }
        if share < 1 { full = min(cells - 1, full) }
        let percent = "\(Int(share * 100))%"
        let drawn =
            String(repeating: isUTF8 ? "█" : "#", count: full)
            + String(repeating: isUTF8 ? "░" : "-", count: cells - full)
        return (isUTF8 ? drawn : "[\(drawn)]") + String(repeating: " ", count: 5 - percent.utf8.count) + percent
    }

    /// A line that fits, without control characters for the terminal.
    func line(_ text: String) -> String {
        let clean = Output.text(ByteString(text))
        guard let columns else { return clean }
        return TextColumns.beginning(of: clean, in: columns, mark: mark)
    }

    /// A path, cut to leave room for the text about it.
    func path(_ path: String) -> String {
        guard let columns else { return path }
        return TextColumns.end(of: Output.text(ByteString(path)), in: max(16, columns * 2 / 5), mark: mark)
    }
}
