import Foundation

/// The repository that these tests were built from.
enum Repository {
    static let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../..").standardized

    static func text(_ name: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(name), encoding: .utf8)
    }

    /// Names of the rules of pailfs-semantics(7), in the page's order.
    static func rules() throws -> [String] {
        try text("man/pailfs-semantics.7").split(separator: "\n").filter { $0.hasPrefix(".It Li ") }
            .map { String($0.dropFirst(7)) }
    }
}
