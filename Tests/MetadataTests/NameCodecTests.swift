import Basics
import Metadata
import TestSupport
import Testing

@Suite struct NameCodecTests {
    struct Row: CustomTestStringConvertible, Sendable {
        let component: ByteString
        var beside: NameCodec.Neighbours = []
        let shown: ByteString?
        var testDescription: String { "\(component) beside \(beside.rawValue)" }
    }

    static let table: [Row] = [
        Row(component: "plain.txt", shown: "plain.txt"),
        Row(component: "with space", shown: "with space"),
        Row(component: "%41", shown: "%41"),
        Row(component: "a%", shown: "a%"),
        Row(component: ByteString([0xff, 0xfe, 0x80]), shown: ByteString([0xff, 0xfe, 0x80])),
        Row(component: "größe/", shown: "größe"),
        Row(component: "/", shown: "%%2F"),
        Row(component: ".", shown: "%%2E"),
        Row(component: "./", shown: "%%2E"),
        Row(component: "..", shown: "%%2E%%2E"),
        Row(component: "../", shown: "%%2E%%2E"),
        Row(component: ".", beside: .directory, shown: "%%2E%%file"),
        Row(component: "...", shown: "..."),
        Row(component: ByteString([0x61, 0, 0x62]), shown: "a%%00b"),
        Row(component: ByteString([0x25, 0, 0x62]), shown: "%%25%%00b"),
        Row(component: "a%%b", shown: "a%%b"),
        Row(component: "a%%", shown: "a%%"),
        Row(component: "a%%", beside: .directory, shown: "a%%%%file"),
        Row(component: "a%%%%file", shown: "a%%25%%25%%25%%25file"),
        Row(component: "a%%b%%00%c", shown: "a%%25%%25b%%25%%2500%%25c"),
        Row(component: "%%2E", shown: "%%25%%252E"),
        Row(component: "a%%file", shown: "a%%25%%25file"),
        Row(component: "a", beside: .directory, shown: "a%%file"),
        Row(component: "a%", beside: .directory, shown: "a%%%file"),
        Row(component: "a/", beside: [.directory, .object], shown: "a"),
        Row(component: "", shown: "%%file"),
        Row(component: "a.rclonelink", shown: "a"),
        Row(component: "a.rclonelink", beside: .object, shown: "a%%link"),
        Row(component: "a.rclonelink", beside: .directory, shown: "a%%link"),
        Row(component: "a.rclonelink/", shown: "a.rclonelink"),
        Row(component: ".rclonelink", shown: ".rclonelink"),
        Row(component: "..rclonelink", shown: "%%2E"),
    ]

    @Test(.rule("name.escaped"), arguments: table) func componentIsShownAsTheTableSays(_ row: Row) {
        let codec = NameCodec()
        let shown = codec.shownName(of: row.component, beside: row.beside)
        #expect(shown == row.shown)
        guard let shown, let meaning = codec.meaning(of: shown) else {
            Issue.record("\(String(describing: shown)) has no meaning")
            return
        }
        #expect(codec.resolve(meaning, role: codec.role(of: row.component)) == row.component)
    }

    @Test(.rule("name.escaped")) func wrongEscapesMeanNothing() {
        let names: [ByteString] = [
            "", ".", "..", "a%%2F", "%%2E%%2E%%2E", "%%25", "a%%25b", "%%00%", "x/y", "a%%~", "a%%link%%25", "%%link",
            ByteString([0x61, 0]),
        ]
        for name in names {
            let meaning = NameCodec().meaning(of: name)
            #expect(meaning == nil || meaning == .link(base: ""), "\(name)")
        }
    }

    /// Programs give such names, and find them again.
    @Test func percentSignsThatEscapeNothingAreCharacters() {
        let codec = NameCodec()
        for name: ByteString in [
            "%", "%%", "a%%", "%%41", "%%2f", "%%2", "%%%", "%%%%", "%%fil", "100%%.log", "x%%y%41",
        ] {
            #expect(codec.componentToCreate(name, .file) == name, "\(name)")
            #expect(codec.shownName(of: name) == name)
        }
    }

    @Test(.rule("name.escaped")) func longComponentIsAbbreviatedAndKeepsApartFromOthers() {
        let codec = NameCodec()
        let base = ByteString(repeatElement(UInt8(ascii: "x"), count: 300))
        let names = [base, base + "/", base + "y", base + ".rclonelink"].compactMap { codec.shownName(of: $0) }
        #expect(Set(names).count == 4)
        for name in names {
            #expect(name.count == 219)
            #expect(codec.meaning(of: name) == .abbreviated)
        }
        #expect(codec.abbreviatedName(of: base) == names[0])
    }

    @Test func componentThatOnlyItsSuffixMakesTooLongHasItsAbbreviationReady() {
        let codec = NameCodec()
        let base = ByteString(repeatElement(UInt8(ascii: "x"), count: 252))
        #expect(codec.shownName(of: base) == base)
        #expect(codec.shownName(of: base, beside: .directory) == codec.abbreviatedName(of: base))
        #expect(codec.abbreviatedName(of: base + "/") == nil)
        #expect(codec.abbreviatedName(of: ByteString(repeatElement(UInt8(ascii: "x"), count: 249))) == nil)
    }

    @Test(.rule("name.raw")) func rawNamesHideWhatCannotBeShown() {
        let codec = NameCodec(style: .raw)
        let long = ByteString(repeatElement(UInt8(ascii: "x"), count: 256))
        for hidden in ["", "/", ".", "../", ByteString([0x61, 0]), long] as [ByteString] {
            #expect(codec.shownName(of: hidden) == nil, "\(hidden)")
        }
        #expect(codec.shownName(of: "a", beside: .directory) == nil)
        #expect(codec.shownName(of: "a.rclonelink", beside: .object) == nil)
        #expect(codec.shownName(of: "a%%file") == "a%%file")
        #expect(codec.meaning(of: "%%2E") == .plain(base: "%%2E"))
    }

    @Test func nativeSymlinksLeaveTheSuffixAlone() {
        let codec = NameCodec(linkSuffix: nil)
        #expect(codec.shownName(of: "a.rclonelink") == "a.rclonelink")
        #expect(codec.kind(of: "a", isSymlink: true) == .symlink)
        #expect(codec.componentToCreate("a", .symlink) == "a")
        #expect(codec.componentToCreate("a.rclonelink", .file) == "a.rclonelink")
    }

    @Test func newEntriesGetTheComponentOfTheirKind() {
        let codec = NameCodec()
        #expect(codec.componentToCreate("a", .file) == "a")
        #expect(codec.componentToCreate("a", .directory) == "a/")
        #expect(codec.componentToCreate("a", .symlink) == "a.rclonelink")
        #expect(codec.componentToCreate("a.rclonelink", .file) == nil)
        #expect(codec.componentToCreate("a.rclonelink", .directory) == "a.rclonelink/")
        #expect(codec.componentToCreate("%%2F", .directory) == "/")
        #expect(codec.componentToCreate("%%2F", .file) == nil)
        #expect(codec.componentToCreate("a%%x", .file) == "a%%x")
        #expect(codec.componentToCreate("a%%25x", .file) == nil)
        #expect(codec.componentToCreate("a%%file", .file) == nil)
    }

    @Test(arguments: 0..<4) func anyDirectoryOfComponentsIsOneToOne(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let codec = NameCodec()
        for _ in 0..<400 {
            var components: Set<ByteString> = []
            for _ in 0..<Int.random(in: 1...12, using: &random) { components.insert(Self.component(&random)) }
            var names: Set<ByteString> = []
            for component in components {
                let beside = Self.neighbours(of: component, in: components, codec)
                let name = try #require(codec.shownName(of: component, beside: beside))
                #expect(names.insert(name).inserted, "seed \(seed): \(name.bytes) twice, of \(component.bytes)")
                #expect(!name.isEmpty && name.count <= 255 && name != "." && name != "..")
                #expect(!name.bytes.contains(0) && !name.bytes.contains(UInt8(ascii: "/")))
                let meaning = try #require(codec.meaning(of: name), "seed \(seed): \(component.bytes)")
                if meaning == .abbreviated {
                    #expect(codec.abbreviatedName(of: component) == name)
                } else {
                    let back = codec.resolve(meaning, role: codec.role(of: component))
                    #expect(back == component, "seed \(seed): \(name.bytes)")
                }
            }
        }
    }

    @Test(arguments: 0..<4) func anyNameMeansAtMostOneComponentOfARole(_ seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let codec = NameCodec()
        for _ in 0..<1500 {
            let name = Self.name(&random)
            guard let meaning = codec.meaning(of: name), meaning != .abbreviated else { continue }
            for role in NameCodec.Role.allCases {
                guard let component = codec.resolve(meaning, role: role) else { continue }
                let shown = NameCodec.Neighbours.combinations.compactMap {
                    codec.shownName(of: component, beside: $0)
                }
                #expect(shown.contains(name) || name.count > 249, "\(name.bytes)")
            }
        }
    }

    /// Bytes that trouble names, often.
    static func name(_ random: inout SeededGenerator) -> ByteString {
        let pieces: [ByteString] = [
            "%", "%%", "%%file", "%%link", "%%2F", "%%2E", "%%25", "%%00", "%%~", ".", "a", "b", "2", "F",
            ".rclonelink",
            "file", ByteString([0xff]), ByteString([0]), ByteString(random.bytes(3)),
            ByteString(repeatElement(UInt8(ascii: "q"), count: Int.random(in: 1...260, using: &random))),
        ]
        var name: ByteString = ""
        for _ in 0..<Int.random(in: 0...5, using: &random) { name += pieces.randomElement(using: &random) ?? "" }
        return name
    }

    static func component(_ random: inout SeededGenerator) -> ByteString {
        var component = ByteString(name(&random).bytes.filter { $0 != UInt8(ascii: "/") })
        switch Int.random(in: 0..<4, using: &random) {
        case 0: component += "/"
        case 1: component += ".rclonelink"
        default: break
        }
        return component
    }

    static func neighbours(
        of component: ByteString, in components: Set<ByteString>, _ codec: NameCodec
    ) -> NameCodec.Neighbours {
        let base = codec.base(of: component)
        var neighbours: NameCodec.Neighbours = []
        for role in NameCodec.Role.allCases {
            if let other = codec.component(base, role), components.contains(other) {
                neighbours.insert(NameCodec.Neighbours(role))
            }
        }
        return neighbours
    }
}

extension NameCodec.Neighbours {
    static var combinations: [NameCodec.Neighbours] { (0..<8).map { NameCodec.Neighbours(rawValue: $0) } }
}

extension NameCodec {
    func resolve(_ meaning: Meaning, role: Role) -> ByteString? {
        switch meaning {
        case .plain(let base): component(base, role)
        case .object(let base): role == .object ? component(base, .object) : nil
        case .link(let base): role == .link ? component(base, .link) : nil
        case .ownObject: role == .object ? "" : nil
        case .abbreviated: nil
        }
    }
}
