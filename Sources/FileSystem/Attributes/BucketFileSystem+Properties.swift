import Basics
import Blocks
import Metadata
import ObjectStorage

/// `user.pailfs.acl`, `user.pailfs.storage-class` and `user.pailfs.restore`: properties of an object beside its headers. Each use
/// asks the store, so listxattr(2) does not name them.
extension BucketFileSystem {
    enum ObjectProperty: String {
        case accessControl = "user.pailfs.acl"
        case storageClass = "user.pailfs.storage-class"
        case restore = "user.pailfs.restore"
    }

    /// The change that a value asks for.
    private enum PropertyChange {
        case accessControl(AccessControl)
        case storageClass(String)
        case restore(RestoreRequest)
    }

    func property(_ property: ObjectProperty, of ino: InodeNumber) -> Outcome<ByteString> {
        later { [self] () async throws(FileSystemError) in
            try await asking(about: ino) { () async throws(FileSystemError) in try await value(of: property, ino) }
        }
    }

    private func value(
        of property: ObjectProperty, _ ino: InodeNumber
    ) async throws(FileSystemError) -> ByteString {
        let entry = try entry(ino)
        guard entry.attributes.kind == .file, entry.attributes.version != nil, !entry.isPending else {
            throw FileSystemError(.noData, "\(entry.name) is not stored yet and has no \(property.rawValue)")
        }
        let key = try key(of: ino)
        let value: String?
        switch property {
        case .accessControl:
            value = try await remote { store throws(ObjectStoreError) in
                try await store.accessControl(of: key).text
            }
        case .storageClass: value = try await info(key).storageClass ?? store.capabilities.storageClasses.first
        case .restore:
            guard store.capabilities.restore else {
                throw FileSystemError(ObjectStoreError.lacking(.restore, key, "archived objects"))
            }
            value = try await info(key).restore?.description
        }
        guard let value else { throw FileSystemError(.noData, "the object has no \(property.rawValue)") }
        return ByteString(value)
    }

    private func info(_ key: ObjectKey) async throws(FileSystemError) -> ObjectInfo {
        try await remote { store throws(ObjectStoreError) in try await store.head(key, condition: nil) }
    }

    /// Commits the file first: the property is that of the committed object.
    func setProperty(_ property: ObjectProperty, of ino: InodeNumber, to value: ByteString) -> Outcome<Void> {
        later { [self] () async throws(FileSystemError) in
            do throws(FileSystemError) {
                try requireWritable()
                let change = try change(property, to: value)
                try await doubting(ino) { () async throws(FileSystemError) in try await carryOut(change, of: ino) }
            } catch {
                if error.kind != .interrupted { remember(error, "setxattr", ino) }
                throw error
            }
        }
    }

    private func change(
        _ property: ObjectProperty, to value: ByteString
    ) throws(FileSystemError) -> PropertyChange {
        let text = String(validating: value.bytes, as: UTF8.self) ?? ""
        switch property {
        case .accessControl:
            if let access = AccessControl(text: text) { return .accessControl(access) }
            throw FileSystemError(
                .invalid,
                "\(property.rawValue) must be a canned list such as public-read, or lines such as user:ID=READ")
        case .storageClass:
            if StoredHeader.canCarry(text) { return .storageClass(text) }
            throw FileSystemError(.invalid, "\(property.rawValue) must be a storage class")
        case .restore:
            if let request = RestoreRequest(text: text) { return .restore(request) }
            throw FileSystemError(.invalid, "\(property.rawValue) must be a number of days, or one and a tier")
        }
    }

    private func carryOut(_ change: PropertyChange, of ino: InodeNumber) async throws(FileSystemError) {
        let pass = try await enterNamespace(of: ino)
        defer { namespace.leave(pass) }
        let file = try await holdFile(ino)
        defer { if let file { releaseInBackground(file) } }
        let named = try entry(ino)
        guard let file else {
            throw FileSystemError(.notSupported, "\(named.name) is not an object that has properties")
        }
        let lock = try await lock(file)
        try await commit(lock)
        let entry = try entry(ino)
        guard let version = entry.attributes.version else {
            throw FileSystemError(.notSupported, "\(entry.name) is not an object that has properties")
        }
        let key = try key(of: ino)
        try await finishJobs(at: key)
        switch change {
        case .accessControl(let access):
            try await remote { store throws(ObjectStoreError) in
                try await store.setAccessControl(of: key, to: access)
            }
        case .restore(let request):
            try await remote { store throws(ObjectStoreError) in try await store.restore(key, request) }
        case .storageClass(let name):
            let answer = try await remote { store throws(ObjectStoreError) in
                try await store.setStorageClass(of: key, to: name, ifMatch: version.etag)
            }
            var attributes = file.attributes
            let renewed = renew(key, version, by: answer)
            attributes.version = renewed
            attributes.storageClass = name == store.capabilities.storageClasses.first ? nil : name
            let changed = attributes
            try cached { metadata throws(MetadataError) in try metadata.update(ino, changed, pending: false) }
            file.rebase(on: rooms.blocks.open(key, renewed), changed)
        }
    }
}
