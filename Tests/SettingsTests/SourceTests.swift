import Foundation
import Testing

/// What must not stand in the sources although it compiles.
struct SourceTests {
    /// A mutex, or another generic holder, whose whole value is a function wraps the function once more at each reading:
    /// `LateBinding` is there for it. Behind a field of a struct a function stays as it is.
    @Test func noGenericHolderIsOfAFunctionAlone() throws {
        // The expression alone takes twenty seconds for all lines.
        try expectNone {
            $0.contains("->") && $0.contains(/(Mutex|Atomic|OSAllocatedUnfairLock|ManagedBuffer|TaskLocal)<[^\n]*->/)
        }
    }

    /// Of a tuple with an `await` behind its first element, the optimizer of Swift 6.3 returns the elements before it as something
    /// else, silently: `pailfs cp URL -` wrote the pieces of an object in the order in which they came. The `await` goes first.
    @Test func noTupleIsMadeAroundAnAwait() throws {
        let tuple = /(^\s*|return |= )\([^()]*(\([^()]*\)[^()]*)*,[^,)]*\bawait\b/
        #expect("return (index, .success(try await body(item)))".contains(tuple))
        #expect(!"return (try await store.head(key, condition: nil), nil)".contains(tuple))
        #expect(!"try await body(a, await b)".contains(tuple))
        #expect(!"(version, isMoved) = try await transfer(key)".contains(tuple))
        try expectNone { $0.contains(tuple) }
    }

    private func expectNone(_ isWrong: (Substring) -> Bool) throws {
        let sources = Repository.root.appendingPathComponent("Sources")
        let names = try FileManager.default.subpathsOfDirectory(atPath: sources.path).filter { $0.hasSuffix(".swift") }
        #expect(names.count > 100)
        for name in names {
            let text = try String(contentsOf: sources.appendingPathComponent(name), encoding: .utf8)
            for line in text.split(separator: "\n") where isWrong(line) {
                Issue.record("Sources/\(name): \(line.trimmingCharacters(in: .whitespaces))")
            }
        }
    }
}
