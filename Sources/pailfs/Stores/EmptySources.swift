import Glibc
import ObjectStorage
import Providers

extension MountRequest {
    /// The files that were read and had no credentials, in brackets, for the message that none were found; empty when there is no
    /// such file.
    var emptySources: String {
        let files: [String]
        switch scheme {
        case .s3: files = (try? s3Credentials())?.files ?? []
        case .oss: files = (try? ossCredentials())?.files ?? []
        case .cos: files = (try? cosCredentials())?.files ?? []
        case .kodo: files = (try? kodoCredentials())?.files ?? []
        case .swift: files = (try? swiftCredentials())?.files ?? []
        case .cssp: files = []
        }
        let texts = files.compactMap { file -> String? in
            let path = Self.absolute(file, in: directory)
            guard access(path, F_OK) == 0 else { return nil }
            return access(path, R_OK) == 0 ? "\(file) has none for this bucket" : "\(file) cannot be read"
        }
        return texts.isEmpty ? "" : " (\(texts.joined(separator: ", ")))"
    }
}
