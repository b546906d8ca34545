/// The name for which a word is a likely misspelling.
package enum NearestName {
    /// The one of `names` that is nearest to `word`; nil if none is near.
    package static func to(_ word: String, among names: [String]) -> String? {
        let ranked = names.map { ($0, distance(word, $0)) }
        guard let best = ranked.min(by: { $0.1 < $1.1 }), best.1 <= max(1, word.count / 3) else { return nil }
        return best.0
    }

    /// Insertions, deletions, replacements and swaps of neighbours that turn one into the other (Damerau and Levenshtein, each
    /// place changed once).
    private static func distance(_ left: String, _ right: String) -> Int {
        let (left, right) = (Array(left), Array(right))
        var before: [Int] = []
        var row = Array(0...right.count)
        for (index, letter) in left.enumerated() {
            var next = [index + 1]
            for column in 0..<right.count {
                var least = min(row[column] + (letter == right[column] ? 0 : 1), row[column + 1] + 1, next[column] + 1)
                if index > 0, column > 0, letter == right[column - 1], left[index - 1] == right[column] {
                    least = min(least, before[column - 1] + 1)
                }
                next.append(least)
            }
            (before, row) = (row, next)
        }
        return row[right.count]
    }
}
