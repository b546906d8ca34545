import Basics
import Commits
import Metadata
import ObjectStorage

/// `user.meta.NAME`: the object's own metadata, as other programs see it in the store's header for NAME.
package struct UserMetadataName: Sendable {
    package static let prefix = "user.meta."
    /// In bytes.
    private static let longest = 128

    /// The name of the header. Names do not differ by case (RFC 9110, section 5.1), and stores return lower case.
    package let key: String

    /// nil for other attributes.
    package init?(_ attribute: String) {
        guard attribute.hasPrefix(Self.prefix) else { return nil }
        key = attribute.dropFirst(Self.prefix.count).lowercased()
    }

    /// Whether every store takes a header of that name.
    package var isValid: Bool {
        (1...Self.longest).contains(key.utf8.count)
            && key.utf8.allSatisfy { (97...122).contains($0) || (48...57).contains($0) || "-_.".utf8.contains($0) }
    }

    /// Whether pailfs keeps attributes of the file in it.
    package var isOurs: Bool { Self.isOurs(key) }

    func value(in headers: ObjectMetadata) -> String? { isOurs ? nil : headers.user[key] }

    private static func isOurs(_ key: String) -> Bool {
        AttributeCodec.isOurs(key) || key == CommitOptions.commitHeader || key.hasPrefix("pailfs-")
    }

    /// The attributes that are shown of an object's metadata.
    static func attributes(of headers: ObjectMetadata) -> [String] {
        headers.user.keys.filter { !isOurs($0) }.map { prefix + $0 }
    }
}

extension BucketFileSystem {
    func setUserMetadata(
        _ name: UserMetadataName, of ino: InodeNumber, to value: ByteString, _ mode: ExtendedAttributeMode
    ) -> Outcome<Void> {
        let attribute = UserMetadataName.prefix + name.key
        if let refusal = refusal(of: name) { return .ready(.failure(refusal)) }
        guard let text = String(validating: value.bytes, as: UTF8.self), StoredHeader.canCarry(text) else {
            return .failure(
                .invalid, "\(attribute) is limited to printable ASCII characters without spaces at the ends")
        }
        if isBucket(ino) { return changeBucketMetadata(name, to: text, mode) }
        return change(ino) { headers throws(FileSystemError) in
            try Self.require(mode, of: attribute, isSet: headers.user[name.key] != nil)
            headers.user[name.key] = text
        }
    }

    func removeUserMetadata(_ name: UserMetadataName, of ino: InodeNumber) -> Outcome<Void> {
        if let refusal = refusal(of: name) { return .ready(.failure(refusal)) }
        if isBucket(ino) { return changeBucketMetadata(name, to: nil, .createOrReplace) }
        return change(ino) { headers throws(FileSystemError) in
            // An earlier pailfs has stored it among the other attributes.
            var others = ExtendedAttributeCodec.decode(headers)
            let wasAmongOthers = others.removeValue(forKey: UserMetadataName.prefix + name.key) != nil
            if wasAmongOthers { ExtendedAttributeCodec.encode(others, into: &headers) }
            guard headers.user.removeValue(forKey: name.key) != nil || wasAmongOthers else {
                throw FileSystemError(.noData, "the object has no metadata \(name.key)")
            }
        }
    }

    private func refusal(of name: UserMetadataName) -> FileSystemError? {
        if name.isOurs {
            return FileSystemError(.notPermitted, "pailfs keeps attributes of the file in the metadata \(name.key)")
        }
        guard name.isValid else {
            return FileSystemError(
                .invalid, "names of metadata are limited to 128 letters, digits, dashes, dots and underscores")
        }
        return nil
    }
}
