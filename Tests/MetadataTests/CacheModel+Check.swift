import Basics
import Metadata
import ObjectStorage
import TestSupport

extension CacheModel {
    /// Compares every directory the cache shows with what was true.
    func check() throws {
        var seen: Set<InodeNumber> = [.root]
        for (path, ino) in try directories() {
            let children = try fixture.cache.children(of: ino, after: nil, limit: 1000)
            try checkPresent(children, path, ino, &seen)
            try checkMissing(children, path, ino)
            try checkNames(children, path, ino)
        }
        for (key, ino) in pending where try fixture.cache.key(of: ino) != key {
            throw Contradiction(description: "pending \(key) is not where it belongs")
        }
    }

    private func checkPresent(
        _ children: [Entry], _ path: ByteString, _ ino: InodeNumber, _ seen: inout Set<InodeNumber>
    ) throws {
        guard children.map(\.component) == children.map(\.component).sorted() else {
            throw Contradiction(description: "children of \(path) out of order")
        }
        guard Set(children.map(\.name)).count == children.count else {
            throw Contradiction(description: "one name twice in \(path): \(children.map(\.name))")
        }
        for child in children {
            let key = path + child.component
            guard seen.insert(child.ino).inserted else {
                throw Contradiction(description: "inode \(child.ino) twice")
            }
            guard try fixture.cache.key(of: child.ino) == key, try fixture.cache.entry(child.ino) == child else {
                throw Contradiction(description: "\(key) is not what its inode says")
            }
            guard try fixture.cache.lookup(child.name, in: ino).entry == child else {
                throw Contradiction(description: "\(key) is not found as \(child.name)")
            }
            if pending[key] == child.ino {
                guard child.isPending else { throw Contradiction(description: "\(key) is not pending") }
                continue
            }
            guard !child.isPending else { throw Contradiction(description: "\(key) is pending") }
            let isFresh = child.freshUntil > fixture.time.now()
            if child.attributes.kind == .directory {
                let holdsOurs = pending.keys.contains { $0.hasPrefix(key) }
                guard holdsOurs || isTrue(key, "directory", fresh: isFresh) || isOursBelow(key) else {
                    throw Contradiction(description: "directory \(key) said to be there, fresh \(isFresh)")
                }
            } else {
                guard isTrue(key, child.attributes.version?.etag.text, fresh: isFresh) else {
                    throw Contradiction(
                        description:
                            "\(key) shown as \(child.attributes.version?.etag.text ?? "none"), fresh \(isFresh)")
                }
            }
        }
    }

    /// A change of ours keeps the directories above it in sight, until a listing that began later says otherwise.
    private func isOursBelow(_ key: ByteString) -> Bool {
        history.contains { $0.key.hasPrefix(key) && $0.value.contains { $0.isOurs } }
    }

    private func checkMissing(_ children: [Entry], _ path: ByteString, _ ino: InodeNumber) throws {
        let components = Set(children.map(\.component))
        let isFresh = try fixture.cache.directory(ino).isFresh
        for component in Self.names + Self.folders where !components.contains(component) {
            let key = path + component
            guard pending[key] == nil else { throw Contradiction(description: "pending \(key) is not shown") }
            guard isTrue(key, nil, fresh: isFresh) || (forgotten.contains(key) && !isFresh) else {
                throw Contradiction(description: "\(key) not shown, directory fresh \(isFresh)")
            }
        }
    }

    private func checkNames(_ children: [Entry], _ path: ByteString, _ ino: InodeNumber) throws {
        let codec = fixture.cache.codec
        for base in Set((Self.names + Self.folders).map { codec.base(of: $0) }) {
            let all = NameCodec.Role.allCases.compactMap { codec.component(base, $0) }
            let shown = all.compactMap { component in children.first { $0.component == component } }.first
            guard let name = codec.shownName(of: base + "/") else { continue }
            switch try fixture.cache.lookup(name, in: ino) {
            case .present(let entry, let isFresh):
                guard entry == shown, isFresh == (entry.isPending || entry.freshUntil > fixture.time.now()) else {
                    throw Contradiction(description: "\(name) in \(path) is \(entry.component)")
                }
            case .absent(let until):
                guard shown == nil, until > fixture.time.now() else {
                    throw Contradiction(description: "\(name) in \(path) said to be missing")
                }
                for component in all where !isTrue(path + component, nil, fresh: true) {
                    throw Contradiction(description: "\(path + component) said to be missing")
                }
            case .unknown:
                guard shown == nil else { throw Contradiction(description: "\(name) in \(path) not known") }
            }
        }
    }
}

extension LookupAnswer {
    var entry: Entry? {
        if case .present(let entry, _) = self { entry } else { nil }
    }
}
