import Basics

extension RestoreState: CustomStringConvertible {
    /// `ongoing`, `until` a time, or `done`.
    package var description: String {
        switch self {
        case .ongoing: "ongoing"
        case .restored(let until): until.map { "until \($0.iso8601())" } ?? "done"
        }
    }
}

extension RestoreRequest {
    /// `DAYS` or `DAYS TIER`; nil for anything else.
    package init?(text: String) {
        let words = text.split(separator: " ")
        guard (1...2).contains(words.count), let days = Int(words[0]), days > 0 else { return nil }
        guard words.allSatisfy({ StoredHeader.canCarry(String($0)) }) else { return nil }
        self.init(days: days, tier: words.count == 2 ? String(words[1]) : nil)
    }
}
