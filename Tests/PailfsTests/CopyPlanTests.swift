import Basics
import ObjectStorage
import Testing

@testable import pailfs

@Suite struct CopyPlanTests {
    private let unit: Int64 = 5 << 20

    private func parts(_ size: Int64, partSize: Int64? = nil) -> [CopyPlan.Part] {
        CopyPlan.parts(size: size, partSize: partSize ?? unit, limits: Capabilities())
    }

    @Test(arguments: [0, 1, 5 << 20, (5 << 20) + 1, 100 << 20, 6 << 40] as [Int64])
    func thePartsMakeTheFile(size: Int64) {
        let parts = parts(size)
        #expect(parts.map(\.number) == Array(1...max(parts.count, 1)))
        #expect(parts.count <= Capabilities().mostParts)
        #expect(parts.first?.range.lowerBound == 0 && parts.last?.range.upperBound == size)
        #expect(zip(parts, parts.dropFirst()).allSatisfy { $0.range.upperBound == $1.range.lowerBound })
        #expect(parts.dropLast().allSatisfy { $0.range.length >= unit })
    }

    /// A part is in memory while it passes from one store to another.
    @Test(arguments: [(8 << 20, 8 << 20), (1 << 40, 105 << 20), (5 << 40, 525 << 20)] as [(Int64, Int64)])
    func aPartIsNoLargerThanItMustBe(size: Int64, most: Int64) {
        #expect(parts(size, partSize: 8 << 20).allSatisfy { $0.range.length <= most })
    }

    private func listed(_ part: CopyPlan.Part, size: Int64? = nil) -> UploadedPart {
        UploadedPart(number: part.number, etag: ETag("e\(part.number)"), size: size ?? part.range.length)
    }

    @Test func partsThatTheStoreHasAreNotSentAgain() throws {
        let all = parts(4 * unit + 1)
        let resumed = try #require(CopyPlan.resume(all, listed: [listed(all[0]), listed(all[2])]))
        #expect(resumed.stored.map(\.number) == [1, 3])
        #expect(resumed.missing.map(\.number) == [2, 4, 5])
    }

    @Test func aPartOfAnotherLengthIsSentAgain() throws {
        let all = parts(4 * unit)
        let resumed = try #require(CopyPlan.resume(all, listed: [listed(all[0]), listed(all[1], size: 7)]))
        #expect(resumed.stored.map(\.number) == [1])
        #expect(resumed.missing.map(\.number) == [2, 3, 4])
    }

    /// Ceph refuses a completion that leaves out a part.
    @Test func anUploadWithPartsBehindTheEndIsNotResumed() {
        let all = parts(2 * unit)
        #expect(CopyPlan.resume(all, listed: [UploadedPart(number: 3, etag: ETag("e"), size: unit)]) == nil)
    }

    @Test func missingRangesAreThoseBetweenTheKnownOnes() {
        #expect(CopyPlan.missingRanges(size: 25, known: [], length: 10) == [0..<10, 10..<20, 20..<25])
        #expect(CopyPlan.missingRanges(size: 25, known: [10..<20], length: 10) == [0..<10, 20..<25])
        #expect(CopyPlan.missingRanges(size: 25, known: [5..<12, 0..<6, 24..<25], length: 10) == [12..<22, 22..<24])
        #expect(CopyPlan.missingRanges(size: 25, known: [0..<25], length: 10).isEmpty)
        #expect(CopyPlan.missingRanges(size: 0, known: [], length: 10).isEmpty)
        // Of a longer version.
        #expect(CopyPlan.missingRanges(size: 25, known: [20..<90], length: 10) == [0..<10, 10..<20])
    }

    @Test(arguments: [
        ("dir", false, true, "dir"), ("a/dir", false, true, "dir"), ("a/b.txt", false, true, "b.txt"),
        ("a/b.txt", false, false, ""), ("dir", true, true, "dir"), ("dir/", true, true, ""), ("dir", true, false, ""),
        ("", true, true, ""),
    ])
    func aCopyIntoADirectoryHasTheNameOfItsSource(source: String, isTree: Bool, into: Bool, name: String) {
        #expect(CopyPlan.beginning(of: ByteString(source), isTree: isTree, into: into) == ByteString(name))
    }

    @Test(arguments: [
        (".", "./", ""), ("a/.", "a/./", ""), ("./", "./", ""), ("..", "/x/y", "y"), ("a/..", "/x/y", "y"),
        ("../", "../", ""), ("a", "a", "a"), ("...", "...", "..."),
    ])
    func aSourceThatEndsInDotsHasAName(source: String, named: String, beginning: String) {
        let path = CopyPlan.named(source, resolved: "/x/y")
        #expect(path == named)
        #expect(CopyPlan.beginning(of: ByteString(path), isTree: true, into: true) == ByteString(beginning))
    }

    @Test(arguments: [
        ("", "backup/"), ("", "backup"), ("p/", "p/q"), ("p/", "p/p/"),
    ])
    func aCopyBelowItsSourceIsEndless(prefix: String, root: String) {
        #expect(CopyPlan.isEndless(from: ByteString(prefix), to: ByteString(root)))
    }

    @Test(arguments: [("", ""), ("p/", "p"), ("p/", "p/"), ("p/", "pq"), ("p/q/", "p"), ("p/", "")])
    func otherCopiesEnd(prefix: String, root: String) {
        #expect(!CopyPlan.isEndless(from: ByteString(prefix), to: ByteString(root)))
    }

    /// Two letters of more than one byte can begin alike.
    @Test(
        arguments: [
            (["p/\u{e4}", "p/\u{f6}"], "p/"), (["p/a"], "p/"), (["p/a/b", "p/a/c"], "p/a/"), (["a", "b"], ""), ([], ""),
        ] as [([String], String)])
    func theCommonDirectoryEndsInASlash(names: [String], directory: String) {
        #expect(CopyPlan.commonDirectory(of: names.map { ByteString($0) }) == ByteString(directory))
    }

    @Test(arguments: [("", "a", "a"), ("d", "a", "d/a"), ("d/", "a", "d/a"), ("d", "", "d")])
    func namesAreBelowTheRoot(root: String, name: String, path: String) {
        #expect(CopyPlan.path(ByteString(root), ByteString(name)) == ByteString(path))
    }

    @Test(arguments: [
        "..", "../a", "a/../b", "a/..", ".", "./a", "a/./b", "", "/a", "a//b", "a/", "a\u{0}b",
        String(repeating: "n", count: 256),
    ])
    func someKeysCannotBeFiles(name: String) {
        #expect(CopyPlan.objection(toLocalName: ByteString(name), isMarker: false) != nil)
    }

    @Test(arguments: ["a", "a/b", "...", "a..b", ".hidden", "a b", "ä", String(repeating: "n", count: 255)])
    func otherKeysCan(name: String) {
        #expect(CopyPlan.objection(toLocalName: ByteString(name), isMarker: false) == nil)
    }

    @Test func aMarkerCanBeADirectory() {
        #expect(CopyPlan.objection(toLocalName: "a/b/", isMarker: true) == nil)
        #expect(CopyPlan.objection(toLocalName: "a/b//", isMarker: true) != nil)
        #expect(CopyPlan.objection(toLocalName: "../", isMarker: true) != nil)
    }

    @Test func aNameThatIsNotUTF8CannotBeAFile() {
        #expect(CopyPlan.objection(toLocalName: ByteString([0xff, 0x61]), isMarker: false) != nil)
    }
}

@Suite struct KeyComponentTests {
    @Test(
        arguments: [
            ("*.gz", "a.gz"), ("*", "a"), ("?", "\u{e4}"), ("[a-c]x", "bx"), ("[a", "[a"), (".*", ".a"), ("a**b", "ab"),
            ("a\\*", "a*"), ("plain", "plain"),
        ] as [(String, ByteString)])
    func matches(pattern: String, name: ByteString) { #expect(KeyComponent(ByteString(pattern)).matches(name)) }

    @Test(
        arguments: [
            ("*.gz", "a.gzip"), ("*", ".a"), ("[!a]x", ".x"), ("*.gz", ".x.gz"), ("a\\*", "ab"), ("[a", "a"),
            ("plain", "plain.gz"),
        ] as [(String, ByteString)])
    func matchesNot(pattern: String, name: ByteString) { #expect(!KeyComponent(ByteString(pattern)).matches(name)) }

    @Test func theBeginningNarrowsTheListing() {
        #expect(KeyComponent("log-*.gz").beginning == "log-")
        #expect(KeyComponent("*").beginning.isEmpty)
        #expect(KeyComponent("plain").beginning == "plain")
    }
}
